package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/pkg/pki"
)

// condition is as long as the one that the signer writes when it has issued a
// certificate. Its type is not the signer's, which would take it away.
func condition(now time.Time) metav1.Condition {
	return metav1.Condition{
		Type: "bench/Ready", Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.NewTime(now),
		Message: strings.Repeat("as long as ours is", 10),
	}
}

// floor is a bare client that makes the writes that the signer makes, of the same size.
type floor struct {
	what      string
	namespace string // of its Services and Secrets
	// watched: it holds the three watches that the signer holds beside them.
	watched bool
	// signing: it makes a certificate for each Secret, which nobody gets. No signer with the
	// same client can be faster.
	signing bool
	budget  string // of the signer's rate beside it
}

// floors are what the signer is compared with. Each does all that the one before it does.
var floors = []floor{
	{what: "bare client: Secret create + Service status patch", namespace: "floor", budget: "≥ 0.75"},
	{what: "the same beside the signer's watches", namespace: "floor-watched", watched: true, budget: "≥ 0.8"},
	{what: "and with the cryptography of each certificate", namespace: "floor-signing", watched: true, signing: true},
}

// runFloor measures a floor.
func (b *bench) runFloor(ctx context.Context, f floor) (measure.Phase, error) {
	namespace := f.namespace
	if err := b.each(ctx, b.n, func(ctx context.Context, i int) error { return b.MakeService(ctx, namespace, i, false) }); err != nil {
		return measure.Phase{}, err
	}
	certPEM, keyPEM, err := pair()
	if err != nil {
		return measure.Phase{}, err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{condition(time.Now())}}})
	if err != nil {
		return measure.Phase{}, err
	}
	crypto, err := newCrypto()
	if err != nil {
		return measure.Phase{}, err
	}
	if f.watched {
		stop, err := b.watchAsTheSigner(ctx)
		if err != nil {
			return measure.Phase{}, err
		}
		defer stop()
	}
	m, err := b.Begin(ctx, nil)
	if err != nil {
		return measure.Phase{}, err
	}
	err = b.each(ctx, b.n, func(ctx context.Context, i int) error {
		if f.signing {
			if err := crypto.once(ctx); err != nil {
				return err
			}
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: measure.Name(i) + "-tls", Labels: map[string]string{"made-by": "bench"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: measure.Name(i), UID: types.UID("00000000-0000-0000-0000-000000000000")}},
			},
			Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
		}
		if _, err := b.Client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := b.Client.CoreV1().Services(namespace).Patch(ctx, measure.Name(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return measure.Phase{}, err
	}
	p, err := m.End(ctx, b.n)
	if err != nil {
		return measure.Phase{}, err
	}
	return p, b.clear(ctx, namespace)
}

// watchAsTheSigner holds the watches that cost the API server an event a write: of
// Services, of Secrets with our label, and of the names of all others. stop ends them, and
// returns when they have ended.
func (b *bench) watchAsTheSigner(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	stop = func() {
		cancel()
		_ = g.Wait()
	}
	drain := func(w watch.Interface, err error) error {
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		g.Go(func() error {
			defer w.Stop()
			for range w.ResultChan() {
				if ctx.Err() != nil {
					return nil
				}
			}
			return nil
		})
		return nil
	}
	// What the floor makes has the label of the watch whose events hold the whole Secret, as
	// the signer's have.
	ours, others := metav1.ListOptions{LabelSelector: "made-by=bench"}, metav1.ListOptions{LabelSelector: "made-by!=bench"}
	if err := drain(b.Client.CoreV1().Services("").Watch(ctx, metav1.ListOptions{})); err != nil {
		stop()
		return nil, err
	}
	if err := drain(b.Client.CoreV1().Secrets("").Watch(ctx, ours)); err != nil {
		stop()
		return nil, err
	}
	if err := drain(b.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Watch(ctx, others)); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// pair returns a certificate and its key, of the size and form of those that the
// signer writes: the API server looks at them.
func pair() (certPEM, keyPEM []byte, err error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	cert, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, now, now.Add(time.Hour))
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = pki.EncodeKey(key)
	return pki.EncodeCertificates(cert), keyPEM, err
}
