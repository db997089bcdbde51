package trust

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// BackendTLSPolicy is the kind of the Gateway API that configures how gateways connect to a
// Service with TLS (GEP-1897, https://gateway-api.sigs.k8s.io/geps/gep-1897/). Older versions
// have other fields.
var BackendTLSPolicy = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "BackendTLSPolicy"}

// BackendTLS is the input of DecideBackendTLS: a Service and the policy with its name.
type BackendTLS struct {
	// Service is nil if there is none, or it is being deleted: its owner reference removes the
	// policy.
	Service metav1.Object
	// OptedIn: the namespace has the label, and therefore ConfigMap servingcert-ca.crt.
	OptedIn bool
	// Policy is the policy with the Service's name; nil if there is none.
	Policy *unstructured.Unstructured
	// Others are the names of other policies that target the Service.
	Others []string
}

// PolicyAct is an action on a policy.
type PolicyAct string

const (
	PolicyStays  PolicyAct = ""
	PolicyCreate PolicyAct = "create"
	PolicyUpdate PolicyAct = "update"
	PolicyDelete PolicyAct = "delete"
)

// PolicyCause is why a Service that requests a policy has none. Its values are the actions
// of an event.
type PolicyCause string

const (
	PolicyInvalid    PolicyCause = "ReadAnnotation" // the annotation is neither true nor false
	PolicyForeign    PolicyCause = "FindPolicy"     // there is a policy that servingcert did not create
	PolicyNotOptedIn PolicyCause = "FindNamespace"  // the namespace is not opted in
)

// PolicyDecision is what to do about a Service's policy, or why a Service that requests a
// policy has none.
type PolicyDecision struct {
	Act   PolicyAct
	Cause PolicyCause
	Why   string // for people; "" without a cause
}

// DecideBackendTLS returns what to do. The first rule that applies decides. Foreign policies
// are never changed, and no second policy is created beside them.
func DecideBackendTLS(s BackendTLS) PolicyDecision {
	if s.Service == nil {
		return PolicyDecision{}
	}
	wants, err := api.WantsBackendTLSPolicy(s.Service.GetAnnotations())
	ours := s.Policy != nil && IsOwnPolicy(s.Policy)
	switch {
	case err != nil:
		return PolicyDecision{Cause: PolicyInvalid, Why: err.Error()}
	case !wants && ours:
		return PolicyDecision{Act: PolicyDelete}
	case !wants:
		return PolicyDecision{}
	case s.Policy != nil && !ours:
		return PolicyDecision{Cause: PolicyForeign, Why: fmt.Sprintf("BackendTLSPolicy %s exists and is not managed by servingcert: it is not changed", s.Policy.GetName())}
	case !ours && len(s.Others) > 0:
		return PolicyDecision{Cause: PolicyForeign, Why: fmt.Sprintf("BackendTLSPolicy %s already targets this Service", slices.Min(s.Others))}
	case !s.OptedIn:
		return PolicyDecision{Cause: PolicyNotOptedIn, Why: fmt.Sprintf("namespace %s is not labelled %s=%s", s.Service.GetNamespace(), api.LabelInject, api.InjectEnabled)}
	case !ours:
		return PolicyDecision{Act: PolicyCreate}
	case !holdsPolicy(s.Policy, s.Service):
		return PolicyDecision{Act: PolicyUpdate}
	}
	return PolicyDecision{}
}

// IsOwnPolicy reports whether the policy has our label. Whoever can forge the label may
// write the policy anyway.
func IsOwnPolicy(policy metav1.Object) bool {
	return policy.GetLabels()[api.LabelManagedBy] == FieldManager
}

// NewPolicy returns the policy of a Service: gateways connect to it with TLS, with a name
// that is in its certificate, and verify it with the bundle of its namespace.
func NewPolicy(service metav1.Object) *unstructured.Unstructured {
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"targetRefs": []any{map[string]any{"group": "", "kind": "Service", "name": service.GetName()}},
		"validation": map[string]any{
			"caCertificateRefs": []any{map[string]any{"group": "", "kind": "ConfigMap", "name": api.BundleName}},
			"hostname":          service.GetName() + "." + service.GetNamespace() + ".svc",
		},
	}}}
	policy.SetGroupVersionKind(BackendTLSPolicy)
	policy.SetNamespace(service.GetNamespace())
	policy.SetName(service.GetName())
	policy.SetLabels(map[string]string{api.LabelManagedBy: FieldManager})
	policy.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.GetName(), UID: service.GetUID()}})
	return policy
}

// holdsPolicy reports whether the policy has the fields of NewPolicy; spec.options belong to
// its users.
func holdsPolicy(policy *unstructured.Unstructured, service metav1.Object) bool {
	want := NewPolicy(service)
	return sameField(policy, want, "targetRefs") && sameField(policy, want, "validation") && reflect.DeepEqual(policy.GetOwnerReferences(), want.GetOwnerReferences())
}

// sameField reports whether both policies have the same value in a field of their spec.
func sameField(policy, want *unstructured.Unstructured, field string) bool {
	a, _, _ := unstructured.NestedFieldNoCopy(policy.Object, "spec", field)
	b, _, _ := unstructured.NestedFieldNoCopy(want.Object, "spec", field)
	return reflect.DeepEqual(a, b)
}

const (
	// maxPolicyTargets and maxPolicyFields are the most Services, and fields of spec.validation, that
	// StripPolicy keeps of a policy: the Gateway API permits no more.
	maxPolicyTargets, maxPolicyFields = 16, 16
	// maxPolicyText is the longest name of a Service, UID or field that StripPolicy keeps: there are no longer ones.
	maxPolicyText = validation.DNS1123LabelMaxLength
)

// StripPolicy leaves of a policy what DecideBackendTLS, PolicyPatch and PolicyTargets read. A tenant chooses all
// fields of a policy, and our label too. So of what differs from NewPolicy, only that it differs is kept: such a
// policy has no owner. Stripping it again changes nothing.
func StripPolicy(policy *unstructured.Unstructured) {
	want, kept := NewPolicy(policy), NewPolicy(policy) // with the policy's own UID as that of the owner
	kept.SetUID(policy.GetUID())
	kept.SetResourceVersion(policy.GetResourceVersion())
	kept.SetOwnerReferences(nil)
	spec := map[string]any{"targetRefs": servicesOf(policy)}
	kept.Object["spec"] = spec
	targets, verified := sameField(policy, want, "targetRefs") && sameField(kept, want, "targetRefs"), sameField(policy, want, "validation")
	owner, owners := want.GetOwnerReferences()[0], policy.GetOwnerReferences()
	if len(owners) == 1 && len(owners[0].UID) <= maxPolicyText {
		owner.UID = owners[0].UID
	}
	switch {
	case !IsOwnPolicy(policy):
		kept.SetLabels(nil)
	case !verified:
		spec["validation"] = fieldsOf(policy)
	default:
		spec["validation"], _, _ = unstructured.NestedFieldNoCopy(want.Object, "spec", "validation")
		if targets && reflect.DeepEqual(owners, []metav1.OwnerReference{owner}) {
			kept.SetOwnerReferences(owners)
		}
	}
	policy.Object = kept.Object
}

// servicesOf returns the targetRefs of a policy that are Services.
func servicesOf(policy *unstructured.Unstructured) []any {
	var refs []any
	for _, name := range PolicyTargets(policy) {
		if len(name) <= maxPolicyText && len(refs) < maxPolicyTargets {
			refs = append(refs, map[string]any{"group": "", "kind": "Service", "name": name})
		}
	}
	return refs
}

// fieldsOf returns the fields of a policy's spec.validation, without their values.
func fieldsOf(policy *unstructured.Unstructured) map[string]any {
	have, _, _ := unstructured.NestedFieldNoCopy(policy.Object, "spec", "validation")
	fields, _ := have.(map[string]any)
	kept := map[string]any{}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if len(field) <= maxPolicyText && len(kept) < maxPolicyFields {
			kept[field] = nil
		}
	}
	return kept
}

// PolicyPatch returns the JSON merge patch from the policy to NewPolicy's. It applies only
// if the policy has not changed since it was read.
func PolicyPatch(policy *unstructured.Unstructured, service metav1.Object) map[string]any {
	patch := NewPolicy(service).Object
	spec, _ := patch["spec"].(map[string]any)
	validation, _ := spec["validation"].(map[string]any)
	have, _, _ := unstructured.NestedMap(policy.Object, "spec", "validation")
	for field := range have { // such as wellKnownCACertificates, which would trust other CAs too
		if _, ok := validation[field]; !ok {
			validation[field] = nil
		}
	}
	metadata, _ := patch["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = string(policy.GetUID()), policy.GetResourceVersion()
	return patch
}

// PolicyTargets returns the Services that a policy targets.
func PolicyTargets(policy *unstructured.Unstructured) []string {
	refs, _, _ := unstructured.NestedSlice(policy.Object, "spec", "targetRefs")
	var names []string
	for _, ref := range refs {
		ref, _ := ref.(map[string]any)
		if name, ok := ref["name"].(string); ok && ref["kind"] == "Service" && ref["group"] == "" {
			names = append(names, name)
		}
	}
	return names
}
