package trust

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
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
			if c.s.Policy != nil {
				StripPolicy(c.s.Policy)
				assert.Equal(t, got, DecideBackendTLS(c.s), "of what a cache keeps")
			}
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
	stripped := have.DeepCopy()
	StripPolicy(stripped)
	assert.Equal(t, PolicyPatch(have, service), PolicyPatch(stripped, service), "of what a cache keeps")
	merged, err := evanphx.MergePatch(document, patch)
	require.NoError(t, err)
	var got unstructured.Unstructured
	require.NoError(t, json.Unmarshal(merged, &got.Object))
	assert.True(t, holdsPolicy(&got, service), string(merged))
	assert.Equal(t, map[string]any{"a": "b"}, got.Object["spec"].(map[string]any)["options"])
	assert.Equal(t, []string{"web"}, PolicyTargets(&got))
	assert.Contains(t, string(patch), `"resourceVersion":"3","uid":"2"`)
}

// A tenant chooses all of a policy, our label too, and an object may have more than a megabyte in each place.
func TestOfAPolicyLittleIsKept(t *testing.T) {
	service := &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Annotations: map[string]string{api.AnnotationBackendTLSPolicy: "true"}}
	long := strings.Repeat("x", 1<<20)
	many := func(one func(i int) any) (all []any) {
		for i := range 5000 {
			all = append(all, one(i))
		}
		return all
	}
	ref := func(kind, name string) map[string]any { return map[string]any{"group": "", "kind": kind, "name": name} }
	owner := func(change func(*metav1.OwnerReference)) func(*unstructured.Unstructured) {
		return func(p *unstructured.Unstructured) {
			owners := p.GetOwnerReferences()
			change(&owners[0])
			p.SetOwnerReferences(owners)
		}
	}
	field := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(p *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(p.Object, value, path...))
		}
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"finalizers":  field(many(func(i int) any { return fmt.Sprintf("example.com/%0200d", i) }), "metadata", "finalizers"),
		"annotations": field(long, "metadata", "annotations", "note"),
		"other labels": func(p *unstructured.Unstructured) {
			p.SetLabels(map[string]string{api.LabelManagedBy: FieldManager, "x": long})
		},
		"managed fields":          field([]any{map[string]any{"manager": long}}, "metadata", "managedFields"),
		"owners":                  func(p *unstructured.Unstructured) { p.SetOwnerReferences(make([]metav1.OwnerReference, 5000)) },
		"an owner's name":         owner(func(r *metav1.OwnerReference) { r.Name = long }),
		"an owner's UID":          owner(func(r *metav1.OwnerReference) { r.UID = types.UID(long) }),
		"an owner's kind":         owner(func(r *metav1.OwnerReference) { r.Kind = long }),
		"an owner's version":      owner(func(r *metav1.OwnerReference) { r.APIVersion = long }),
		"status":                  field(long, "status", "ancestors"),
		"options":                 field(long, "spec", "options", "example.com/ciphers"),
		"an unknown field":        field(long, "spec", "unknown"),
		"targets":                 field(many(func(i int) any { return ref("Service", fmt.Sprintf("s-%060d", i)) }), "spec", "targetRefs"),
		"a target's name":         field([]any{ref("Service", long)}, "spec", "targetRefs"),
		"a target's kind":         field([]any{ref(long, "web")}, "spec", "targetRefs"),
		"a target's section":      field([]any{map[string]any{"group": "", "kind": "Service", "name": "web", "sectionName": long}}, "spec", "targetRefs"),
		"certificates":            field(many(func(int) any { return ref("ConfigMap", strings.Repeat("x", 200)) }), "spec", "validation", "caCertificateRefs"),
		"a certificate's name":    field([]any{ref("ConfigMap", long)}, "spec", "validation", "caCertificateRefs"),
		"the hostname":            field(long, "spec", "validation", "hostname"),
		"well known certificates": field(long, "spec", "validation", "wellKnownCACertificates"),
		"names":                   field(many(func(int) any { return map[string]any{"type": "Hostname", "hostname": strings.Repeat("x", 200)} }), "spec", "validation", "subjectAltNames"),
		"an unknown check":        field("x", "spec", "validation", long),
		"another validation":      field(long, "spec", "validation"),
	} {
		for _, own := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ours %t", name, own), func(t *testing.T) {
				policy := NewPolicy(service)
				policy.SetUID("2")
				policy.SetResourceVersion("3")
				change(policy)
				if !own {
					policy.SetLabels(map[string]string{api.LabelManagedBy: "somebody"})
				}
				decided := DecideBackendTLS(BackendTLS{Service: service, OptedIn: true, Policy: policy})
				StripPolicy(policy)
				text, err := json.Marshal(policy.Object)
				require.NoError(t, err)
				assert.Less(t, len(text), 4<<10)
				var again *unstructured.Unstructured
				assert.Less(t, bounded.Allocated(func() { again = policy.DeepCopy() }), uint64(16<<10*bounded.RaceFactor))
				assert.Equal(t, decided, DecideBackendTLS(BackendTLS{Service: service, OptedIn: true, Policy: policy}))
				StripPolicy(again)
				assert.Equal(t, policy, again)
			})
		}
	}
}
