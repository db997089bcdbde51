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
	// or the value of the annotation is not valid.
	EventUnsuitable = "TrustBundleUnsuitable"
	// EventKindRefused, on the trust status: targets of a kind may not be listed or
	// watched.
	EventKindRefused = "TrustKindRefused"
	// EventSourceInvalid, on the source: there is no bundle to be distributed.
	EventSourceInvalid = "TrustSourceInvalid"
)

const (
	actionApply = "ApplyBundle"
	actionRead  = "ReadBundle"
	actionWatch = "WatchTargets"
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

func (w eventWriter) restored(obj client.Object, was trust.Judgement) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeNormal, EventRestored, actionApply, "CA bundle restored: %s", was.Message)
}

func (w eventWriter) refused(obj client.Object, why trust.Judgement) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeWarning, EventRefused, actionApply, "CA bundle not written: %s: %s", why.Reason, api.Shorten(why.Message, api.TrustMaxMessage))
}

func (w eventWriter) unsuitable(obj client.Object, why trust.Judgement) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeWarning, EventUnsuitable, actionApply, "CA bundle not written: %s", api.Shorten(why.Message, api.TrustMaxMessage))
}

func (w eventWriter) kindRefused(namespace, kind, message string) {
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.TrustStatusName}}
	w.recorder.Eventf(w.on(status), nil, corev1.EventTypeWarning, EventKindRefused, actionWatch,
		"cannot watch targets of kind %s: grant the permission, or leave the kind out of --targets: %s", kind, api.Shorten(message, api.TrustMaxMessage))
}

func (w eventWriter) sourceInvalid(source client.Object, problem string) {
	w.recorder.Eventf(w.on(source), nil, corev1.EventTypeWarning, EventSourceInvalid, actionRead, "no CA bundle to distribute, targets keep the one they have: %s", api.Shorten(problem, api.TrustMaxMessage))
}
