package ca

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestStatusData(t *testing.T) {
	s := ladder(t, 1, 2, 2)
	o := observed(nil)
	o.Now = start.Add(10 * day)
	data := statusData(o, Decision{State: &s, Waiting: "waiting"}, map[string]int{pki.Fingerprint(s.Generations[1].Root): 3, "another": 4}, nil)
	bundle, err := pki.ParseBundle([]byte(data[api.BundleKey]))
	require.NoError(t, err)
	assert.Equal(t, s.Bundle(o.Now).PEM(), bundle.PEM(), "exactly the roots")
	assert.Equal(t, map[string]string{
		api.BundleKey: data[api.BundleKey], api.CABundleHash: bundle.Hash(), api.CAGeneration: "2",
		api.CAPhase: "Retire", api.CASince: "2026-03-03T12:10:00Z", api.CANotAfter: "2029-03-02T12:00:00Z",
		api.CAWaitingFor: "waiting", api.CALeaves: "7", api.CAReplaced: "3",
	}, data)

	lost := Decision{Reason: ReasonLost, Message: "gone"}
	without := statusData(o, lost, nil, data)
	assert.Equal(t, data[api.BundleKey], without[api.BundleKey], "what is trusted stays trusted")
	assert.Equal(t, "CALost: gone", without[api.CAProblem])
	assert.NotContains(t, data, api.CAProblem, "the argument was changed")
	assert.NotContains(t, statusData(o, Decision{State: &s}, nil, without), api.CAProblem, "a problem that is over stays on")

	expired := Decision{Reason: ReasonExpired, Message: "over", State: &s, Warnings: []Warning{{"A", "a"}, {"B", "b"}}}
	assert.Equal(t, data[api.BundleKey], statusData(o, expired, nil, nil)[api.BundleKey])
	assert.Equal(t, "CAExpired: over", statusData(o, expired, nil, nil)[api.CAProblem])
	assert.Equal(t, "A: a\nB: b", statusData(o, expired, nil, nil)[api.CAWarning])

	waiting := ladder(t, 1, 3, 2)
	waiting.Generations[2].Why = "asked for: x"
	waiting.Rotation = Rotation{Mode: api.RotateOverlap, Reason: "x", Generation: 3}
	data = statusData(o, Decision{State: &waiting}, nil, nil)
	assert.Equal(t, []string{"Wait", "2", "3", "asked for: x", "overlap:x", "generation 3 was made and does not sign yet"},
		[]string{data[api.CAPhase], data[api.CAGeneration], data[api.CANextGeneration], data[api.CAWhy], data[api.CARotation], data[api.CARotationOutcome]})
}

func TestSameStatus(t *testing.T) {
	data := map[string]string{api.BundleKey: "x"}
	cm := withStatus(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{api.AnnotationRotate: "because"}, Labels: map[string]string{"mine": "stays"},
	}}, data)
	require.True(t, sameStatus(cm, data))
	assert.Equal(t, "because", cm.Annotations[api.AnnotationRotate])
	assert.Equal(t, "stays", cm.Labels["mine"])
	for name, spoil := range map[string]func(*corev1.ConfigMap){
		"a changed key":   func(cm *corev1.ConfigMap) { cm.Data = map[string]string{api.BundleKey: "y"} },
		"a missing key":   func(cm *corev1.ConfigMap) { cm.Data = nil },
		"one more key":    func(cm *corev1.ConfigMap) { cm.Data = map[string]string{api.BundleKey: "x", "more": ""} },
		"binary data":     func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"more": nil} },
		"a label is gone": func(cm *corev1.ConfigMap) { delete(cm.Labels, "app.kubernetes.io/name") },
	} {
		spoiled := cm.DeepCopy()
		spoil(spoiled)
		assert.False(t, sameStatus(spoiled, data), name)
		assert.True(t, sameStatus(withStatus(spoiled, data), data), name)
	}
}
