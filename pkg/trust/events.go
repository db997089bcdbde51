package trust

import (
	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons of events. Each is emitted when its fact is new, after the write that
// it speaks of was made or refused.
const (
	// EventRestored, on a target: someone changed or removed the bundle, and it
	// is back.
	EventRestored = "TrustBundleRestored"
	// EventRefused, on a target: the bundle could not be put into it.
	EventRefused = "TrustBundleRefused"
	// EventSourceInvalid, on the source: there is no bundle to be distributed.
	EventSourceInvalid = "TrustSourceInvalid"
)

const (
	actionApply = "ApplyBundle"
	actionRead  = "ReadBundle"
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

func (w eventWriter) restored(obj client.Object, was Judgement) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeNormal, EventRestored, actionApply, "CA bundle restored: %s", was.Message)
}

func (w eventWriter) refused(obj client.Object, why Judgement) {
	w.recorder.Eventf(w.on(obj), nil, corev1.EventTypeWarning, EventRefused, actionApply, "CA bundle not written: %s: %s", why.Reason, shorten(why.Message))
}

func (w eventWriter) sourceInvalid(source client.Object, why error) {
	w.recorder.Eventf(w.on(source), nil, corev1.EventTypeWarning, EventSourceInvalid, actionRead, "no CA bundle to distribute, targets keep what they have: %s", shorten(why.Error()))
}
