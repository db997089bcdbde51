package serving

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// StaleWorkload is ready pods of one workload, or bare pods, that serve an older
// leaf of a Secret although the propagation time is over.
type StaleWorkload struct {
	Workload pods.Workload // zero for bare pods
	// Key is what the pods have a certificate of.
	Key pods.Key
	// Leaf is the fingerprint of the one that they should serve, and Since when it
	// became that. For pods.PodKey Leaf is empty, and Since is when the first of their
	// certificates should have been replaced.
	Leaf  string
	Since time.Time
	// Distrusted: that is because clients do not accept the certificate of the pod's own
	// key any more, and its kubelet does not replace it before it is due: only a new pod
	// gets another.
	Distrusted bool
	// OnRotate is what the pods allow. Pods of one workload that allow different
	// things, as they do in a rollout, are several StaleWorkloads.
	OnRotate api.OnRotate
	// ReadsOtherFiles: the pods were created after Since, and so read the
	// certificate from other files than the Secret's, or through a subPath. A restart
	// would not help.
	ReadsOtherFiles bool
	// Pods is how many there are.
	Pods int
	// Pod is the first of them by name.
	Pod    string
	PodUID types.UID
	// BarePods are the names of all of them, sorted, if they are bare.
	BarePods []string
	// Service is the oldest that asks for the Secret, or of those that select the first of
	// the pods.
	Service    string
	ServiceUID types.UID
	// Services are the names of all that select pods with keys of their own, sorted; none
	// for a Secret.
	Services []string
}

// Compare orders stale workloads by workload, Secret, and what the pods allow.
func (s StaleWorkload) Compare(other StaleWorkload) int {
	return cmp.Or(s.Workload.Compare(other.Workload), s.Key.Compare(other.Key), cmp.Compare(s.OnRotate, other.OnRotate),
		cmp.Compare(s.Pod, other.Pod))
}

// Equal reports whether both say the same.
func (s StaleWorkload) Equal(other StaleWorkload) bool { return reflect.DeepEqual(s, other) }

// Note says what was found, as the beginning of an event's note.
func (s StaleWorkload) Note() string {
	who, serve := "pod "+s.Pod, "serves"
	if s.Pods > 1 {
		who, serve = fmt.Sprintf("%d pods (%s among them)", s.Pods, s.Pod), "serve"
	}
	since := s.Since.UTC().Format("2006-01-02 15:04:05 MST")
	switch {
	case s.Distrusted:
		return fmt.Sprintf("%s %s a certificate that clients do not accept any more since %s", who, serve, since)
	case s.Key == pods.PodKey:
		return fmt.Sprintf("%s %s a certificate that should have been replaced by %s", who, serve, since)
	}
	return fmt.Sprintf("%s %s an older certificate than Secret %s has held since %s", who, serve, s.Key, since)
}

// Objects returns what an event about them regards, and the Service related to
// it. uid is the workload's, if its pods know it by name only.
func (s StaleWorkload) Objects(namespace string, uid types.UID) (regarding, related runtime.Object) {
	if s.Service != "" {
		related = &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: s.Service, UID: s.ServiceUID}
	}
	if s.Workload.Bare() || s.Workload.Node() {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: s.Pod, UID: s.PodUID}, related
	}
	return s.Workload.Reference(namespace, uid), related
}

// staleGroups are the stale pods, by what one event reports.
type staleGroups map[notification]*StaleWorkload

// add puts a stale pod with the others of its workload, and returns their key.
func (g staleGroups) add(c consumer, about subject, p Pace) (key notification) {
	t := c.pod.Template.Value()
	key = notification{t.Workload, t.OnRotate, c.readsOtherFiles(about, p)}
	s := g[key]
	if s == nil {
		s = &StaleWorkload{Workload: t.Workload, Key: about.key(), OnRotate: t.OnRotate, ReadsOtherFiles: key.readsOtherFiles}
		g[key] = s
	}
	s.Pods++
	if t.Workload.Bare() {
		s.BarePods = append(s.BarePods, c.pod.Name)
	}
	if s.Pod == "" || c.pod.Name < s.Pod {
		s.Pod, s.PodUID = c.pod.Name, c.pod.UID
		s.Service, s.ServiceUID = c.endpoint.services[0].Name, c.endpoint.services[0].UID
	}
	since, distrusted := about.overdue(c, p)
	if s.Since.IsZero() || since.Before(s.Since) {
		s.Since = since
	}
	s.Distrusted = s.Distrusted || distrusted
	about.describe(s, c)
	return key
}
