package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// secretKeys: the API server itself parses the key of a Secret of type kubernetes.io/tls,
// to warn, for longer than the signer may. So large keys are in Secrets of another type.
func secretKeys(a *attacker) func(int) client.Object {
	certPEM, _ := selfSigned(1)
	large, small := absurdKey(290<<10), absurdKey(12<<10) // 390 KiB as PEM, and 16 KiB: twice what a key may have
	return func(i int) client.Object {
		secret := labelled(a.nth(i, 20), certPEM, small)
		if i%2 == 0 {
			secret.Type, secret.Data[corev1.TLSPrivateKeyKey] = corev1.SecretTypeOpaque, large
		}
		return secret
	}
}

func secretNames(a *attacker) func(int) client.Object {
	certPEM, keyPEM := selfSigned(240_000)
	return func(i int) client.Object { return labelled(a.nth(i, 20), certPEM, keyPEM) }
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
		secret := labelled(a.nth(i, 100), nil, nil)
		secret.OwnerReferences = []metav1.OwnerReference{owner}
		return a.replace(ctx, secret)
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
			return a.replace(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: wanted()}})
		})
	})
}

func trustImmutable(a *attacker) func(int) client.Object {
	yes := true
	data := map[string]string{api.BundleKey: strings.Repeat("x", 1<<20-1024)}
	return func(i int) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: a.nth(i, 100), Annotations: wanted()}, Data: data, Immutable: &yes}
	}
}
