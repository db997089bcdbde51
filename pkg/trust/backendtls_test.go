package trust

import (
	"encoding/json"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestDecideBackendTLS(t *testing.T) {
	service := func(value string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Annotations: map[string]string{api.AnnotationBackendTLSPolicy: value}}
	}
	ours := func(change func(p *unstructured.Unstructured)) *unstructured.Unstructured {
		p := NewPolicy(service("true"))
		change(p)
		return p
	}
	as := func(*unstructured.Unstructured) {}
	foreign := ours(func(p *unstructured.Unstructured) { p.SetLabels(nil) })
	for _, c := range []struct {
		name  string
		s     BackendTLS
		act   PolicyAct
		cause PolicyCause
	}{
		{"no Service", BackendTLS{Policy: ours(as), OptedIn: true}, PolicyStays, ""},
		{"nothing asked", BackendTLS{Service: &metav1.ObjectMeta{}, OptedIn: true}, PolicyStays, ""},
		{"a wrong value keeps what is there", BackendTLS{Service: service("yes"), Policy: ours(as), OptedIn: true}, PolicyStays, PolicyInvalid},
		{"asked", BackendTLS{Service: service("true"), OptedIn: true}, PolicyCreate, ""},
		{"asked without the label", BackendTLS{Service: service("true")}, PolicyStays, PolicyNotOptedIn},
		{"there", BackendTLS{Service: service("true"), Policy: ours(as), OptedIn: true}, PolicyStays, ""},
		{"with options", BackendTLS{Service: service("true"), OptedIn: true, Policy: ours(func(p *unstructured.Unstructured) {
			p.Object["spec"].(map[string]any)["options"] = map[string]any{"example.com/ciphers": "few"}
		})}, PolicyStays, ""},
		{"of the Service before", BackendTLS{Service: service("true"), OptedIn: true, Policy: ours(func(p *unstructured.Unstructured) {
			p.SetOwnerReferences([]metav1.OwnerReference{{UID: "0"}})
		})}, PolicyUpdate, ""},
		{"changed", BackendTLS{Service: service("true"), OptedIn: true, Policy: ours(func(p *unstructured.Unstructured) {
			p.Object["spec"].(map[string]any)["targetRefs"] = []any{}
		})}, PolicyUpdate, ""},
		{"not asked any more", BackendTLS{Service: service("false"), Policy: ours(as)}, PolicyDelete, ""},
		{"of somebody else", BackendTLS{Service: service("true"), Policy: foreign, OptedIn: true}, PolicyStays, PolicyForeign},
		{"of somebody else, not asked any more", BackendTLS{Service: service("false"), Policy: foreign, OptedIn: true}, PolicyStays, ""},
		{"another one is for the Service", BackendTLS{Service: service("true"), Others: []string{"b", "a"}, OptedIn: true}, PolicyStays, PolicyForeign},
		{"another one came later", BackendTLS{Service: service("true"), Policy: ours(as), Others: []string{"b"}, OptedIn: true}, PolicyStays, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := DecideBackendTLS(c.s)
			assert.Equal(t, c.act, got.Act)
			assert.Equal(t, c.cause, got.Cause)
			assert.Equal(t, c.cause == "", got.Why == "")
		})
	}
}

func TestPolicyTargetsAreServices(t *testing.T) {
	p := NewPolicy(&metav1.ObjectMeta{Name: "web"})
	p.Object["spec"].(map[string]any)["targetRefs"] = []any{
		map[string]any{"group": "", "kind": "Service", "name": "web"}, map[string]any{"group": "", "kind": "Service"},
		map[string]any{"group": "", "kind": "Other", "name": "a"},
		map[string]any{"group": "x", "kind": "Service", "name": "b"},
	}
	assert.Equal(t, []string{"web"}, PolicyTargets(p))
}

// TestPolicyPatch: the patch changes any policy to the wanted one, except for its options.
func TestPolicyPatch(t *testing.T) {
	service := &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}
	have := NewPolicy(service)
	have.SetUID("2")
	have.SetResourceVersion("3")
	have.SetOwnerReferences(nil)
	have.Object["spec"] = map[string]any{
		"targetRefs": []any{},
		"validation": map[string]any{"hostname": "x", "wellKnownCACertificates": "System", "subjectAltNames": []any{}},
		"options":    map[string]any{"a": "b"},
	}
	document, err := json.Marshal(have.Object)
	require.NoError(t, err)
	patch, err := json.Marshal(PolicyPatch(have, service))
	require.NoError(t, err)
	merged, err := evanphx.MergePatch(document, patch)
	require.NoError(t, err)
	var got unstructured.Unstructured
	require.NoError(t, json.Unmarshal(merged, &got.Object))
	assert.True(t, holdsPolicy(&got, service), string(merged))
	assert.Equal(t, map[string]any{"a": "b"}, got.Object["spec"].(map[string]any)["options"])
	assert.Equal(t, []string{"web"}, PolicyTargets(&got))
	assert.Contains(t, string(patch), `"resourceVersion":"3","uid":"2"`)
}
