package trust

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

const (
	beta  = "service.beta.openshift.io/inject-cabundle"
	alpha = "service.alpha.openshift.io/inject-cabundle"
	own   = "servingcert.dev/inject-ca-bundle"
)

func TestAsk(t *testing.T) {
	type annotations = map[string]string
	var (
		nothing    = ask{}
		inOurs     = ask{asked: true, key: "ca.crt"}
		inTheirs   = ask{asked: true, key: "service-ca.crt", alone: true}
		notAllowed = func(value string) ask {
			return ask{asked: true, key: "ca.crt", problem: `annotation servingcert.dev/inject-ca-bundle: "` + value + `": must be "true" or "false"`}
		}
	)
	tests := []struct {
		name        string
		annotations annotations
		plain       ask // without --openshift-compat
		compat      ask // with it
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
		{"a word that is nobody's", annotations{"service.beta.openshift.io/inject-ca-bundle": "true"}, nothing, nothing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}}
			assert.Equal(t, tt.plain, words{}.of(cm), "plain")
			assert.Equal(t, tt.compat, words{openShift: true}.of(cm), "--openshift-compat")
			cm.DeletionTimestamp = &metav1.Time{Time: noon}
			assert.Equal(t, nothing, words{openShift: true}.of(cm), "being deleted")
		})
	}
}

// drawnAnnotations are those that could ask, with values of every sort.
func drawnAnnotations(t *rapid.T) map[string]string {
	return rapid.MapOf(rapid.SampledFrom([]string{own, beta, alpha, "note"}),
		rapid.SampledFrom([]string{"true", "false", "True", "yes", ""})).Draw(t, "annotations")
}

// What is stripped before it enters the cache asks for the same, and at most one
// of the words counts.
func TestAskProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := words{openShift: rapid.Bool().Draw(t, "compat")}
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: drawnAnnotations(t)}}
		whole := by.of(cm)
		stripped, err := transform(annotatedConfigMap(by).Strip)(cm.DeepCopy())
		assert.NoError(t, err)
		assert.Equal(t, whole, by.of(stripped.(*corev1.ConfigMap)))

		if !by.openShift {
			without := cm.DeepCopy()
			delete(without.Annotations, beta)
			delete(without.Annotations, alpha)
			assert.Equal(t, by.of(without), whole, "OpenShift's words say nothing")
		}
		if _, ok := cm.Annotations[own]; ok {
			assert.NotEqual(t, api.OpenShiftBundleKey, whole.key, "ours wins")
		}
		assert.Equal(t, whole.asked, whole.key != "")
		assert.False(t, whole.problem != "" && !whole.asked)
	})
}

func TestShortenKeepsValuesBounded(t *testing.T) {
	long := make([]byte, 100_000)
	for i := range long {
		long[i] = 'x'
	}
	a := words{}.of(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{own: string(long)}}})
	assert.Less(t, len(a.problem), 400)
}
