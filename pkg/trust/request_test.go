package trust

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
)

const (
	beta  = "service.beta.openshift.io/inject-cabundle"
	alpha = "service.alpha.openshift.io/inject-cabundle"
	own   = "servingcert.dev/inject-ca-bundle"
)

func TestRequestOf(t *testing.T) {
	type annotations = map[string]string
	var (
		nothing    = Request{}
		inOurs     = Request{Requested: true, Key: "ca.crt"}
		inTheirs   = Request{Requested: true, Key: "service-ca.crt", Alone: true}
		notAllowed = func(value string) Request {
			return Request{Requested: true, Key: "ca.crt", Problem: `annotation servingcert.dev/inject-ca-bundle: "` + value + `": must be "true" or "false"`}
		}
	)
	tests := []struct {
		name        string
		annotations annotations
		plain       Request // without --openshift-compat
		compat      Request // with it
	}{
		{"nothing", nil, nothing, nothing},
		{"ours", annotations{own: "true"}, inOurs, inOurs},
		{"ours, not", annotations{own: "false"}, nothing, nothing},
		{"ours, another case", annotations{own: "True"}, notAllowed("True"), notAllowed("True")},
		{"ours, empty", annotations{own: ""}, notAllowed(""), notAllowed("")},
		{"beta", annotations{beta: "true"}, nothing, inTheirs},
		{"beta, another case", annotations{beta: "TRUE"}, nothing, inTheirs},
		{"beta, not", annotations{beta: "false"}, nothing, nothing},
		{"beta, something else", annotations{beta: "yes"}, nothing, nothing},
		{"alpha", annotations{alpha: "True"}, nothing, inTheirs},
		{"ours over beta", annotations{own: "true", beta: "true", alpha: "true"}, inOurs, inOurs},
		{"ours, not, over beta", annotations{own: "false", beta: "true"}, nothing, nothing},
		{"beta over alpha", annotations{beta: "false", alpha: "true"}, nothing, nothing},
		{"beta over alpha, the other way", annotations{beta: "true", alpha: "false"}, nothing, inTheirs},
		{"an unknown annotation", annotations{"service.beta.openshift.io/inject-ca-bundle": "true"}, nothing, nothing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}}
			assert.Equal(t, tt.plain, RequestOf(cm, false), "plain")
			assert.Equal(t, tt.compat, RequestOf(cm, true), "--openshift-compat")
			cm.DeletionTimestamp = &metav1.Time{Time: noon}
			assert.Equal(t, nothing, RequestOf(cm, true), "being deleted")
		})
	}
}

// The oldest annotation applies only to a ConfigMap of one name, if it has no other annotation.
func TestTheLegacyConfigMap(t *testing.T) {
	const legacy = "service.alpha.openshift.io/inject-vulnerable-legacy-cabundle"
	cm := func(name string, annotations ...string) *corev1.ConfigMap {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{legacy: "true"}}}
		for _, a := range annotations {
			o.Annotations[a] = "false"
		}
		return o
	}
	assert.Equal(t, Request{Requested: true, Key: "service-ca.crt", Alone: true}, RequestOf(cm("openshift-service-ca.crt"), true))
	assert.Equal(t, Request{}, RequestOf(cm("openshift-service-ca.crt"), false))
	assert.Equal(t, Request{}, RequestOf(cm("another"), true))
	assert.Equal(t, Request{}, RequestOf(cm("openshift-service-ca.crt", beta), true), "that decides")
	assert.Equal(t, Request{}, RequestOf(&corev1.Secret{ObjectMeta: cm("openshift-service-ca.crt").ObjectMeta}, true))
}

// At most a kilobyte of the names of forbidden keys is kept, and none of their values.
func TestOtherKeysOfTheLegacyConfigMap(t *testing.T) {
	r := Request{Requested: true, Key: "service-ca.crt", Alone: true}
	b := bundleOf(t, rootBundle(t, noon.Add(time.Hour)), pki.Bundle{})
	most := strings.Repeat("a", maxOtherKeys)
	for name, want := range map[string]Evaluation{
		most:       Differs("key service-ca.crt must be the only key, but there is key " + most),
		most + "a": Holds(),
	} {
		cm := &corev1.ConfigMap{Data: map[string]string{name: "secret"}}
		apply(t, cm, r, b)
		beside := cm.DeepCopy()
		StripConfigMap(cm, r)
		assert.Empty(t, cm.Data[name])
		assert.Equal(t, want, EvaluateConfigMap(cm, r, b))
		StripConfigMap(beside, Request{Requested: true, Key: "service-ca.crt"})
		assert.NotContains(t, beside.Data, name, "which may be beside it")
	}
	cm := &corev1.ConfigMap{Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"service-ca.crt": nil}}
	want := `{"metadata":{"resourceVersion":""},"data":{"a":null},"binaryData":{"service-ca.crt":null}}`
	assert.JSONEq(t, want, string(ClearConfigMap(cm, r, b)))
}

func TestShortenKeepsValuesBounded(t *testing.T) {
	long := make([]byte, 100_000)
	for i := range long {
		long[i] = 'x'
	}
	a := RequestOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{own: string(long)}}}, false)
	assert.Less(t, len(a.Problem), 400)
}
