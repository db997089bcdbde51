package controller

import (
	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// Reasons of events. Each is emitted when its fact is new, after the write that
// it reports succeeded or failed.
const (
	// EventRestored, on a target: someone changed or removed the bundle, and it
	// is back.
	EventRestored = "TrustBundleRestored"
	// EventRefused, on a target: the bundle could not be put into it.
	EventRefused = "TrustBundleRefused"
	// EventUnsuitable, on a target: it requests the bundle and has no field for it,
	// or the value of the annotation is not valid; or some of the files beside it cannot be
	// written.
	EventUnsuitable = "TrustBundleUnsuitable"
	// EventKindRefused, on the trust status: targets of a kind, or what BackendTLSPolicies are
	// made of, may not be listed or watched.
	EventKindRefused = "TrustKindRefused"
	// EventSourceInvalid, on the source: there is no bundle to be distributed.
	EventSourceInvalid = "TrustSourceInvalid"
	// EventPolicyNotMade, on a Service: it asks for a BackendTLSPolicy and has none of ours.
	EventPolicyNotMade = "BackendTLSPolicyNotMade"
	// EventPoliciesUnsupported, on the trust status: no BackendTLSPolicy can be made, as the
	// API server has the kind in other versions only.
	EventPoliciesUnsupported = "BackendTLSPoliciesUnsupported"
)

const (
	actionApply = "ApplyBundle"
	actionRead  = "ReadBundle"
	actionWatch = "WatchTargets"
	actionMake  = "MakePolicy"
)

type eventWriter struct {
	recorder events.EventRecorder
	scheme   *runtime.Scheme
}

// on names the object of an event; it need not exist.
func (w eventWriter) on(obj client.Object) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion()}
	if kinds, _, err := w.scheme.ObjectKinds(obj); err == nil {
		ref.APIVersion, ref.Kind = kinds[0].ToAPIVersionAndKind()
	}
	return ref
}

func (w eventWriter) restored(obj client.Object, was trust.Evaluation) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeNormal, EventRestored, actionApply, "CA bundle restored: %s", was.Message)
}

func (w eventWriter) refused(obj client.Object, why trust.Evaluation) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeWarning, EventRefused, actionApply, "CA bundle not written: %s: %s", why.Reason, api.Shorten(why.Message, api.TrustMaxMessage))
}

func (w eventWriter) unsuitable(obj client.Object, why trust.Evaluation) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeWarning, EventUnsuitable, actionApply, "CA bundle not written: %s", api.Shorten(why.Message, api.TrustMaxMessage))
}

func (w eventWriter) lacks(obj client.Object, what string) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeWarning, EventUnsuitable, actionApply, "the CA bundle is written, other files are not: %s", what)
}

func (w eventWriter) kindRefused(namespace, kind, message string) {
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.TrustStatusName}}
	w.recorder.Eventf(w.on(status), nil, corev1.EventTypeWarning, EventKindRefused, actionWatch,
		"cannot watch targets of kind %s: grant the permission or, if servingcert does not need it, leave the kind out of --targets: %s", kind, api.Shorten(message, api.TrustMaxMessage))
}

func (w eventWriter) sourceInvalid(source client.Object, problem string) {
	w.recorder.Eventf(w.on(source), nil, corev1.EventTypeWarning, EventSourceInvalid, actionRead, "no CA bundle to distribute, targets keep the one they have: %s", api.Shorten(problem, api.TrustMaxMessage))
}

// policyNotMade has an action for each cause, as an event that differs in its note alone is
// counted as the one before.
func (w eventWriter) policyNotMade(service metav1.Object, d trust.PolicyDecision) {
	of := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.GetNamespace(), Name: service.GetName(), UID: service.GetUID(), ResourceVersion: service.GetResourceVersion()}}
	w.recorder.Eventf(w.on(of), nil, corev1.EventTypeWarning, EventPolicyNotMade, string(d.Cause), "no BackendTLSPolicy is made for this Service: %s", api.Shorten(d.Why, api.TrustMaxMessage))
}

func (w eventWriter) policiesRefused(namespace, message string) {
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.TrustStatusName}}
	w.recorder.Eventf(w.on(status), nil, corev1.EventTypeWarning, EventKindRefused, actionMake,
		"cannot watch what BackendTLSPolicies are made of: grant the permission, or do not set --backend-tls-policies: %s", api.Shorten(message, api.TrustMaxMessage))
}

func (w eventWriter) policiesUnsupported(namespace, message string) {
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.TrustStatusName}}
	w.recorder.Eventf(w.on(status), nil, corev1.EventTypeWarning, EventPoliciesUnsupported, actionMake, "no BackendTLSPolicies are made: %s", api.Shorten(message, api.TrustMaxMessage))
}
