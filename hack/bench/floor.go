package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// bareSigner issues certificates with the signer's code, and does nothing else.
type bareSigner struct {
	sign issue.Sign
	ca   *pki.Authority
}

// forServers are the constraints of a CA for servers.
var forServers = pki.Constraints{PermittedDNS: []string{"svc", "svc.cluster.local"}}

func newBareSigner(constraints pki.Constraints) (*bareSigner, error) {
	log.SetOutput(io.Discard) // cfssl logs every certificate there
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	root, err := pki.NewRoot(key, 1, constraints, pki.NotBefore(now), now.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	sign, err := cfssl.NewLocal()
	return &bareSigner{sign, &pki.Authority{
		Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: root.NotAfter,
	}}, err
}

// issue issues a certificate for host NAME.NAMESPACE.svc.
func (s *bareSigner) issue(ctx context.Context, host string, now time.Time) (issue.Issued, error) {
	wanted := api.Wanted{DNSNames: []string{host, host + ".cluster.local"}, Params: api.Params{KeyAlgorithm: pki.ECDSAP256, Duration: 12 * time.Hour}}
	return issue.Issue(ctx, s.sign, s.ca, wanted, now)
}

// runFloor measures a bare client that makes each certificate and the signer's two writes, of the same
// size, beside the signer's watches. It returns certificates per second, which no signer with the same
// client library can exceed.
func (b *bench) runFloor(ctx context.Context) (float64, error) {
	if err := process.Each(ctx, b.n, workers, func(ctx context.Context, i int) error { return b.makeService(ctx, floorNamespace, i, nil) }); err != nil {
		return 0, err
	}
	signer, err := newBareSigner(forServers)
	if err != nil {
		return 0, err
	}
	// As long as the signer's. The signer would remove a condition of its own type.
	condition := metav1.Condition{
		Type: "bench/Ready", Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(), Message: strings.Repeat("as long as ours is", 10),
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{condition}}})
	if err != nil {
		return 0, err
	}
	stop, err := b.watchAsSigner(ctx)
	defer stop()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := process.Each(ctx, b.n, workers, func(ctx context.Context, i int) error { return b.issueBare(ctx, signer, i, patch) }); err != nil {
		return 0, err
	}
	return float64(b.n) / time.Since(start).Seconds(), b.clear(ctx, floorNamespace)
}

// issueBare issues a certificate, creates its Secret and patches its Service.
func (b *bench) issueBare(ctx context.Context, signer *bareSigner, i int, patch []byte) error {
	issued, err := signer.issue(ctx, serviceName(i)+"."+floorNamespace+".svc", time.Now())
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secretName(i), Labels: map[string]string{"made-by": "bench"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: serviceName(i), UID: "00000000-0000-0000-0000-000000000000"}},
		},
		Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM},
	}
	if _, err := b.Clientset.CoreV1().Secrets(floorNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = b.Clientset.CoreV1().Services(floorNamespace).Patch(ctx, serviceName(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// watchAsSigner opens watches for which the API server sends an event per write: of Services, of
// Secrets with a label, with their content, and of the metadata of other Secrets. The caller must
// call stop, even with an error.
func (b *bench) watchAsSigner(ctx context.Context) (stop func(), err error) {
	ctx, stop = context.WithCancel(ctx)
	others, err := metadata.NewForConfig(b.Plane.AdminConfig())
	if err != nil {
		return stop, err
	}
	services, err := b.Clientset.CoreV1().Services("").Watch(ctx, metav1.ListOptions{})
	ours, err2 := b.Clientset.CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{LabelSelector: "made-by=bench"})
	foreign, err3 := others.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Watch(ctx, metav1.ListOptions{LabelSelector: "made-by!=bench"})
	if err := errors.Join(err, err2, err3); err != nil {
		return stop, err
	}
	for _, w := range []watch.Interface{services, ours, foreign} {
		go func() {
			for range w.ResultChan() { // until stop
			}
		}()
	}
	return stop, nil
}
