package collect

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// failedCreate is the reason of events about a pod that a controller could not create.
const failedCreate = "FailedCreate"

// controller identifies a StatefulSet or DaemonSet. Events of an earlier one with the same name have another UID.
type controller struct {
	namespace, kind, name string
	uid                   types.UID
}

// lacksPods reports whether a StatefulSet has fewer pods than it should have.
func lacksPods(s *appsv1.StatefulSet) bool {
	want := int32(1)
	if s.Spec.Replicas != nil {
		want = *s.Spec.Replicas
	}
	return s.Status.Replicas < want
}

// refused fills in why pods of StatefulSets and DaemonSets are not created. Unlike a Deployment, these have no condition
// for it, but events. An event stays for an hour, so refused ignores it once no pod is missing. Users may create events: one
// that is dated in the future would hide all others.
func (g *gatherer) refused(ctx context.Context, found places, lacking map[controller]bool) {
	if len(lacking) == 0 {
		return
	}
	newest := map[controller]*corev1.Event{}
	selector := fields.Set{"reason": failedCreate, "type": corev1.EventTypeWarning}.String()
	err := pages.Each(ctx, g.client.CoreV1().Events(g.opts.Namespace), metav1.ListOptions{FieldSelector: selector}, func(e *corev1.Event) {
		c := controller{e.InvolvedObject.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.UID}
		if e.Reason == failedCreate && lacking[c] && !seenAt(e).After(g.clock.Now()) && (newest[c] == nil || seenAt(newest[c]).Before(seenAt(e))) {
			newest[c] = e
		}
	})
	if err != nil {
		g.failed("Events", err, doctor.PodsRefused)
		return
	}
	for c, e := range newest {
		workloads := found[c.namespace].Workloads
		for i := range workloads {
			if w := &workloads[i]; w.Kind == c.kind && w.Name == c.name {
				w.Failure = fmt.Sprintf("%s (event of %s)", e.Message, seenAt(e).UTC().Format(time.RFC3339))
			}
		}
	}
}

// seenAt returns when the event was last seen.
func seenAt(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if e.LastTimestamp.IsZero() {
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}
