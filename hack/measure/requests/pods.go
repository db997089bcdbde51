package requests

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"strconv"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func (a *asking) makePod(ctx context.Context, name, signerName string) (*corev1.Pod, error) {
	return a.Client.CoreV1().Pods(podsOf).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: "server",
			Containers: []corev1.Container{{Name: "app", Image: "registry.example/app"}},
			Volumes:    []corev1.Volume{controlplane.PodCertificateVolume(signerName)},
		},
	}, metav1.CreateOptions{})
}

// makePods makes n pods, and returns how the request of one of them is made, as its kubelet.
// The API server admits requests of pods that are in its cache; with the last one it has all.
func (a *asking) makePods(ctx context.Context, prefix, signerName string, n int) (of asked, err error) {
	pods := make([]*corev1.Pod, n+1)
	if err := a.each(ctx, n, func(ctx context.Context, i int) (err error) {
		pods[i], err = a.makePod(ctx, prefix+strconv.Itoa(i), signerName)
		return err
	}); err != nil {
		return of, err
	}
	if pods[n], err = a.makePod(ctx, prefix+"last", signerName); err != nil {
		return of, err
	}
	create := func(ctx context.Context, i int, options metav1.CreateOptions) error {
		request := a.template.DeepCopy()
		request.Name = pods[i].Name
		request.Spec.SignerName, request.Spec.PodName, request.Spec.PodUID = signerName, pods[i].Name, pods[i].UID
		_, err := a.nodeCertificates.PodCertificateRequests(podsOf).Create(ctx, request, options)
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := create(ctx, n, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return of, err
		}
	}
	return asked{
		ask: func(ctx context.Context, i int) error { return create(ctx, i, metav1.CreateOptions{}) },
		answered: func(ctx context.Context, i int) (bool, error) {
			o, err := a.certificates.PodCertificateRequests(podsOf).Get(ctx, pods[i].Name, metav1.GetOptions{})
			return err == nil && o.Status.CertificateChain != "", err
		},
		counter: "servingcert_pod_certificates_issued_total",
	}, nil
}

// leaf is a certificate for the key, as the signer's.
func (a *asking) leaf() (*x509.Certificate, error) {
	serial, err := pki.NewSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{webName, webName + ".cluster.local"}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(23 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// podFloor answers PodCertificateRequests with one write each, of the same size, and
// returns how many a second.
func (a *asking) podFloor(ctx context.Context) (done measure.Phase, err error) {
	of, err := a.makePods(ctx, "floor-", nobodys, a.Requests)
	if err != nil {
		return done, err
	}
	if err := a.each(ctx, a.Requests, of.ask); err != nil {
		return done, err
	}
	leaf, err := a.leaf()
	if err != nil {
		return done, err
	}
	at := func(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
	patch, err := json.Marshal(map[string]any{"status": certificatesv1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{{
			Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue, Reason: "Issued",
			Message: "leaf sha256:" + pki.Fingerprint(leaf), LastTransitionTime: metav1.Now(),
		}},
		CertificateChain: string(pki.EncodeCertificates(leaf)),
		NotBefore:        at(leaf.NotBefore), NotAfter: at(leaf.NotAfter), BeginRefreshAt: at(pki.RefreshAt(leaf)),
	}})
	if err != nil {
		return done, err
	}
	requests := a.certificates.PodCertificateRequests(podsOf)
	m, err := a.Begin(ctx, nil)
	if err != nil {
		return done, err
	}
	err = a.each(ctx, a.Requests, func(ctx context.Context, i int) error {
		_, err := requests.Patch(ctx, "floor-"+strconv.Itoa(i), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return done, err
	}
	return m.End(ctx, a.Requests)
}

// answerPods has the signer answer requests that were there before it, then those of a
// burst, and then as many as at first.
func (a *asking) answerPods(ctx context.Context, r *Answered) error {
	of, err := a.makePods(ctx, "web-", api.SignerName, a.Requests)
	if err != nil {
		return err
	}
	if err := a.each(ctx, a.Requests, of.ask); err != nil {
		return err
	}
	p, err := a.startSigner(ctx, "--leader-elect=false")
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := of.wait(ctx, p, a.Requests, a.Requests); err != nil {
		return err
	}
	if r.Pods, err = p.Usage(); err != nil {
		return err
	}
	r.Pods.N = a.Requests
	if of, err = a.makePods(ctx, "burst-", api.SignerName, Burst); err != nil {
		return err
	}
	start := time.Now()
	if err := a.each(ctx, Burst, of.ask); err != nil {
		return err
	}
	if err := of.wait(ctx, p, Burst, a.Requests+Burst); err != nil {
		return err
	}
	r.Burst = p.Reached.Sub(start)
	if of, err = a.makePods(ctx, "more-", api.SignerName, a.Requests); err != nil {
		return err
	}
	if r.PodsRunning, err = a.answerAtOnce(ctx, p, of); err != nil {
		return err
	}
	return p.Stop()
}
