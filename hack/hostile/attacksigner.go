package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// secretKeys: the API server itself parses the key of a Secret of type kubernetes.io/tls,
// to warn, for longer than the signer may. So large keys are in Secrets of another type.
func secretKeys(ctx context.Context, a *attacker) {
	certPEM, _, err := selfSigned(1)
	if err != nil {
		a.count(ctx, err)
		return
	}
	large, err := absurdKey(290 << 10) // 390 KiB as PEM
	if err != nil {
		a.count(ctx, err)
		return
	}
	small, err := absurdKey(12 << 10) // 16 KiB: twice what a key may have
	if err != nil {
		a.count(ctx, err)
		return
	}
	a.repeat(ctx, 500*time.Millisecond, func(i int) error {
		secret := a.pair(i, 20, certPEM, small)
		if i%2 == 0 {
			secret.Type, secret.Data[corev1.TLSPrivateKeyKey] = corev1.SecretTypeOpaque, large
		}
		return a.replaceSecret(ctx, secret)
	})
}

func secretNames(ctx context.Context, a *attacker) {
	certPEM, keyPEM, err := selfSigned(240_000)
	if err != nil {
		a.count(ctx, err)
		return
	}
	a.repeat(ctx, time.Second, func(i int) error { return a.replaceSecret(ctx, a.pair(i, 20, certPEM, keyPEM)) })
}

// pair returns a Secret that says that it is the signer's.
func (a *attacker) pair(i, keep int, certPEM, keyPEM []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: a.nth(i, keep), Labels: ours()}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
	}
}

// stolenLabels: of two Secrets one is owned by a Service that asks for nothing, the other
// by one that does not exist.
func stolenLabels(ctx context.Context, a *attacker) {
	plain := serviceOf(a.name, evilPort)
	plain.Annotations = nil
	svc, err := a.services().Create(ctx, plain, metav1.CreateOptions{})
	if !a.count(ctx, err) {
		return
	}
	a.repeat(ctx, 100*time.Millisecond, func(i int) error {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID}
		if i%2 == 1 {
			owner.UID = "00000000-0000-0000-0000-000000000000"
		}
		return a.replaceSecret(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: a.nth(i, 100), Labels: ours(), OwnerReferences: []metav1.OwnerReference{owner}}, Type: corev1.SecretTypeTLS,
		})
	})
}

// createServices makes n annotated Services of the attack.
func (a *attacker) createServices(ctx context.Context, n int, annotations map[string]string) {
	for i := range n {
		svc := serviceOf(a.nth(i, n), evilPort)
		for k, v := range annotations {
			svc.Annotations[k] = v
		}
		_, err := a.services().Create(ctx, svc, metav1.CreateOptions{})
		a.count(ctx, err)
	}
}

func serviceNames(ctx context.Context, a *attacker) {
	const n = 10
	a.createServices(ctx, n, nil)
	a.repeat(ctx, 200*time.Millisecond, func(i int) error {
		own := fmt.Sprintf("%d.%s.%s.svc,", i, a.nth(i, n), a.namespace)
		return a.annotate(ctx, a.nth(i, n), map[string]string{api.AnnotationExtraDNSNames: own + strings.Repeat("a,", 31<<10)})
	})
}

func serviceFlips(ctx context.Context, a *attacker) {
	const n = 5
	a.createServices(ctx, n, nil)
	a.repeat(ctx, 20*time.Millisecond, func(i int) error {
		return a.annotate(ctx, a.nth(i, n), map[string]string{api.AnnotationSecretName: fmt.Sprint("flip-", i)})
	})
}

// serviceRenewals: RSA keys are what costs most. Where RSA4096 is not permitted, the other
// half of the Services goes on.
func serviceRenewals(ctx context.Context, a *attacker) {
	const n = 20
	a.createServices(ctx, n, nil)
	a.repeat(ctx, 100*time.Millisecond, func(i int) error {
		algorithm := "RSA4096"
		if i%2 == 1 {
			algorithm = "RSA3072"
		}
		return a.annotate(ctx, a.nth(i, n), map[string]string{
			api.AnnotationKeyAlgorithm: algorithm, api.AnnotationRenewAfter: time.Now().UTC().Format(time.RFC3339),
			api.AnnotationDuration: (time.Hour + time.Duration(i)*time.Minute).String(),
		})
	})
}

func trustStream(ctx context.Context, a *attacker) {
	const keep = 50
	many(2, func(half int) {
		if half == 0 {
			a.repeat(ctx, 50*time.Millisecond, func(i int) error {
				_ = a.configMaps().Delete(ctx, fmt.Sprint(a.name, "-", i-keep), metav1.DeleteOptions{}) // the first do not exist
				_, err := a.configMaps().Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(a.name, "-", i), Annotations: wanted()}}, metav1.CreateOptions{})
				return err
			})
			return
		}
		a.repeat(ctx, 250*time.Millisecond, func(i int) error {
			name := fmt.Sprint("alternate-", i%2)
			return a.replaceConfigMap(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: wanted()}})
		})
	})
}

func trustImmutable(ctx context.Context, a *attacker) {
	yes := true
	data := map[string]string{api.BundleKey: strings.Repeat("x", 1<<20-1024)}
	a.repeat(ctx, time.Second, func(i int) error {
		return a.replaceConfigMap(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: a.nth(i, 100), Annotations: wanted()}, Data: data, Immutable: &yes})
	})
}
