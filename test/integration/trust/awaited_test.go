package trust

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// immutable is for newConfigMap.
func immutable(cm *corev1.ConfigMap) { yes := true; cm.Immutable = &yes }

// Who requests the bundle only after it was taken up holds up no new CA, nor who
// withdraws the request and makes it again. One that was there, and refuses, does so
// for a time, and its namespace is named.
func TestLateRequests(t *testing.T) {
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	r := startRotator(t)
	cm := newConfigMap(t, annotation(), nil)
	dataIs(t, cm, map[string]string{api.BundleKey: first})
	change(t, cm, immutable)
	config := mutating("late", byService("a"))
	create(t, config)
	r.settled(t)
	before := status(t, map[string]string{api.TrustHolding: "2", api.TrustTargets: "2"})

	setSource(t, second)
	took := status(t, map[string]string{api.TrustHolding: "1", api.TrustRefusing: "1", api.TrustLate: "0", api.TrustGrace: "1", api.TrustNamespaces: cm.Namespace})
	assert.GreaterOrEqual(t, took[api.TrustSince], before[api.TrustSince])
	r.shows(t, "servingcert_trust_grace", "namespace="+cm.Namespace, 1)
	newConfigMap(t, annotation(), map[string]string{api.BundleKey: first}, immutable)
	newConfigMap(t, annotation(), map[string]string{api.BundleKey: first}, immutable)
	status(t, map[string]string{api.TrustHolding: "1", api.TrustRefusing: "3", api.TrustLate: "2", api.TrustGrace: "1", api.TrustSince: took[api.TrustSince]})

	change(t, cm, func(cm *corev1.ConfigMap) { cm.Annotations = nil })
	status(t, map[string]string{api.TrustRefusing: "2", api.TrustLate: "2", api.TrustGrace: "0"})
	change(t, cm, func(cm *corev1.ConfigMap) { cm.Annotations = annotation() })
	status(t, map[string]string{api.TrustRefusing: "3", api.TrustLate: "3", api.TrustGrace: "0", api.TrustNamespaces: ""})
	assert.Empty(t, r.series(t, "servingcert_trust_grace"))
	passed(t, second)
}

// A new process knows from the trust status when the bundle was taken up.
func TestTakenUpByAnEarlierProcess(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	newConfigMap(t, annotation(), nil, immutable)
	t.Run("first", func(t *testing.T) {
		startRotator(t)
		status(t, map[string]string{api.TrustBundleHash: hash(t, bundle), api.TrustGrace: "1"})
	})
	const earlier = "2026-01-02T03:04:05Z" // long before the ConfigMap was created
	change(t, trustStatus(), func(cm *corev1.ConfigMap) { cm.Data[api.TrustSince] = earlier })
	startRotator(t)
	status(t, map[string]string{api.TrustSince: earlier, api.TrustRefusing: "1", api.TrustLate: "1", api.TrustGrace: "0"})
}
