package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// floorSigner is the signer name of requests that the bare client answers.
const floorSigner = "bench.example/floor"

// kind is a kind of certificate requests. All are for one pod.
type kind struct {
	what    string
	counter string // the signer's metric of answered requests
	ask     func(ctx context.Context, name, signer string) error
	answer  func(ctx context.Context, name string) error // by writes like the signer's
}

// measureRequests measures how a bare client and the signer answer requests of both kinds.
func (b *bench) measureRequests(ctx context.Context) error {
	if err := b.ensureIssued(ctx); err != nil {
		return err
	}
	signer, err := newBareSigner(forServers)
	if err != nil {
		return err
	}
	// The API server rejects a certificate that became valid five minutes ago.
	issued, err := signer.issue(ctx, "web."+podsNamespace+".svc", time.Now().Add(time.Minute))
	if err != nil {
		return err
	}
	key, err := pki.ParseKey(issued.KeyPEM)
	if err != nil {
		return err
	}
	pod, err := b.makePod(ctx)
	if err != nil {
		return err
	}
	for _, of := range []func(context.Context, certificatesv1.PodCertificateRequestSpec, crypto.Signer, issue.Issued) (kind, error){b.podCertificates, b.csrs} {
		k, err := of(ctx, pod, key, issued)
		if err == nil {
			err = b.measureKind(ctx, k)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.what, err)
		}
	}
	return nil
}

// measureKind measures how the bare client, and then the signer, answer the same number of requests.
// The signer has checked all certificates before, and is suspended while the requests are created.
func (b *bench) measureKind(ctx context.Context, k kind) error {
	b.Say("answers to %d %s, of a bare client and of the signer", b.requests, k.what)
	askAll := func(prefix, signer string) error {
		return process.Each(ctx, b.requests, workers, func(ctx context.Context, i int) error { return k.ask(ctx, fmt.Sprint(prefix, i), signer) })
	}
	if err := askAll("floor-", floorSigner); err != nil {
		return err
	}
	start := time.Now()
	if err := process.Each(ctx, b.requests, workers, func(ctx context.Context, i int) error { return k.answer(ctx, fmt.Sprint("floor-", i)) }); err != nil {
		return err
	}
	floor := float64(b.requests) / time.Since(start).Seconds()
	p, err := b.restartSigner(ctx, "--secret-issue-burst=0", "--namespace-reissue-burst=0") // one pod makes all requests
	if err != nil {
		return err
	}
	defer b.kill(p)
	if err := errors.Join(syscall.Kill(p.PID(), syscall.SIGSTOP), askAll("web-", api.SignerName)); err != nil {
		return err
	}
	start = time.Now()
	if err := syscall.Kill(p.PID(), syscall.SIGCONT); err != nil {
		return err
	}
	// With metrics of 10 000 certificates, a scrape costs the signer more than an answer.
	if err := p.wait(ctx, "answers to all", func() (time.Duration, bool) {
		metrics, err := p.Scrape(ctx)
		n := int(metrics.Sum(k.counter))
		return pollAfter(n, b.requests, time.Since(start)), err == nil && n >= b.requests
	}); err != nil {
		return err
	}
	ours := float64(b.requests) / time.Since(start).Seconds()
	b.row(fmt.Sprintf("%d %s: bare client, per second", b.requests, k.what), "(the floor)", "%.0f", floor)
	b.row("  signer, per second", "", "%.0f", ours)
	b.row("  ratio", "≥ 0.3 at 10 000", "%.2f", ours/floor)
	return b.stop(p)
}

// makePod creates a Service with key source pod, and a pod of it on a node.
func (b *bench) makePod(ctx context.Context) (certificatesv1.PodCertificateRequestSpec, error) {
	c := b.Clientset.CoreV1()
	_, err := c.Services(podsNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	account, err2 := c.ServiceAccounts(podsNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "server"}}, metav1.CreateOptions{})
	node, err3 := c.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	if err := errors.Join(err, err2, err3); err != nil {
		return certificatesv1.PodCertificateRequestSpec{}, err
	}
	ours, floors := controlplane.PodCertificateVolume(api.SignerName), controlplane.PodCertificateVolume(floorSigner)
	floors.Name = "floor"
	pod, err := c.Pods(podsNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web", api.LabelInject: api.InjectDisabled}}, // no webhook runs
		Spec: corev1.PodSpec{
			NodeName: node.Name, ServiceAccountName: account.Name, Volumes: []corev1.Volume{ours, floors},
			Containers: []corev1.Container{{Name: "app", Image: "registry.example/app"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return certificatesv1.PodCertificateRequestSpec{}, err
	}
	return certificatesv1.PodCertificateRequestSpec{
		PodName: pod.Name, PodUID: pod.UID, NodeName: types.NodeName(node.Name), NodeUID: node.UID, ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
	}, nil
}

// podCertificates returns PodCertificateRequests, which the node's kubelet creates.
func (b *bench) podCertificates(ctx context.Context, pod certificatesv1.PodCertificateRequestSpec, key crypto.Signer, issued issue.Issued) (k kind, err error) {
	kubelet, err := b.Plane.UserConfig("system:node:"+string(pod.NodeName), "system:nodes")
	if err != nil {
		return k, err
	}
	asNode, err := controlplane.CertificatesOf(ctx, kubelet)
	if err != nil {
		return k, err
	}
	asAdmin, err := controlplane.CertificatesOf(ctx, b.Plane.AdminConfig())
	if err != nil {
		return k, err
	}
	if pod.StubPKCS10Request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key); err != nil {
		return k, err
	}
	patch, err := podCertificatePatch(issued)
	if err != nil {
		return k, err
	}
	requests := asAdmin.PodCertificateRequests(podsNamespace)
	k = kind{
		what: "PodCertificateRequests", counter: "servingcert_pod_certificates_issued_total",
		ask: func(ctx context.Context, name, signer string) error {
			request := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: pod}
			request.Spec.SignerName = signer
			_, err := asNode.PodCertificateRequests(podsNamespace).Create(ctx, request, metav1.CreateOptions{})
			return err
		},
		answer: func(ctx context.Context, name string) error {
			_, err := requests.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		},
	}
	// The API server rejects requests for pods that are not in its cache yet.
	return k, installed.Until(ctx, "a first request", func(ctx context.Context) error { return k.ask(ctx, "first", floorSigner) })
}

// podCertificatePatch returns the signer's answer to a PodCertificateRequest.
func podCertificatePatch(issued issue.Issued) ([]byte, error) {
	leaf := issued.Leaf
	at := func(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
	return json.Marshal(map[string]any{"status": certificatesv1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{{
			Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue, Reason: "Issued",
			Message: "leaf sha256:" + pki.Fingerprint(leaf), LastTransitionTime: metav1.Now(),
		}},
		CertificateChain: string(issued.CertPEM), NotBefore: at(leaf.NotBefore), NotAfter: at(leaf.NotAfter), BeginRefreshAt: at(pki.RefreshAt(leaf)),
	}})
}

// csrs returns CertificateSigningRequests, which the pod creates.
func (b *bench) csrs(_ context.Context, pod certificatesv1.PodCertificateRequestSpec, key crypto.Signer, issued issue.Issued) (k kind, err error) {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: issued.Leaf.DNSNames[:1]}, key)
	if err != nil {
		return k, err
	}
	// The user info of the pod's token; system:masters permits it to create requests.
	config := rest.CopyConfig(b.Plane.AdminConfig())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + podsNamespace + ":" + pod.ServiceAccountName, Groups: []string{"system:masters"},
		Extra: map[string][]string{"authentication.kubernetes.io/pod-name": {pod.PodName}, "authentication.kubernetes.io/pod-uid": {string(pod.PodUID)}},
	}
	asPod, err := kubernetes.NewForConfig(config)
	if err != nil {
		return k, err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"certificate": issued.CertPEM}})
	if err != nil {
		return k, err
	}
	requests := b.Clientset.CertificatesV1().CertificateSigningRequests()
	return kind{
		what: "CertificateSigningRequests", counter: "servingcert_csr_issued_total",
		ask: func(ctx context.Context, name, signer string) error {
			_, err := asPod.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					SignerName: signer, Request: issue.EncodeCSR(csr), Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
				},
			}, metav1.CreateOptions{})
			return err
		},
		answer: func(ctx context.Context, name string) error {
			o, err := requests.Get(ctx, name, metav1.GetOptions{}) // an approval updates the whole object
			if err != nil {
				return err
			}
			o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Permitted", Message: "the requester may have all names that it asks for",
			})
			if _, err := requests.UpdateApproval(ctx, name, o, metav1.UpdateOptions{}); err != nil {
				return err
			}
			_, err = requests.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		},
	}, nil
}
