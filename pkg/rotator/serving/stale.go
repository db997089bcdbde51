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

// StaleWorkload is a workload, or bare pods, with ready pods that serve an older leaf of a Secret
// after the propagation time.
type StaleWorkload struct {
	Workload pods.Workload // zero for bare pods
	// Key is the key of their certificate.
	Key pods.Key
	// Leaf is the fingerprint of the one that they should serve, and Since when the Secret got it.
	// For pods.PodKey Leaf is empty, and Since is when the first of their certificates should have
	// been replaced.
	Leaf  string
	Since time.Time
	// Distrusted: they are stale because clients no longer accept the certificate of the pod's own
	// key. Its kubelet does not replace it before it is due, so only a new pod gets another one.
	Distrusted bool
	// OnRotate is the action that the pods allow. During a rollout, the pods of one workload may
	// differ in it; they are then several StaleWorkloads.
	OnRotate api.OnRotate
	// ReadsOtherFiles: the pods were created after Since, so they read the certificate from other
	// files than the Secret's, or through a subPath. A restart would not help.
	ReadsOtherFiles bool
	// Pods is the number of pods.
	Pods int
	// Pod is the first of them by name.
	Pod    string
	PodUID types.UID
	// BarePods are the names of all of them, sorted, if they are bare.
	BarePods []string
	// Service is the oldest that asks for the Secret, or that selects the first of the pods.
	Service    string
	ServiceUID types.UID
	// Services are the names of all that select pods with their own keys, sorted; empty for a
	// Secret.
	Services []string
}

// Compare orders stale workloads by workload, Secret, and what the pods allow.
func (s StaleWorkload) Compare(other StaleWorkload) int {
	return cmp.Or(s.Workload.Compare(other.Workload), s.Key.Compare(other.Key), cmp.Compare(s.OnRotate, other.OnRotate),
		cmp.Compare(s.Pod, other.Pod))
}

// Equal reports whether they are equal.
func (s StaleWorkload) Equal(other StaleWorkload) bool { return reflect.DeepEqual(s, other) }

// Note describes the stale pods, as the beginning of an event's note.
func (s StaleWorkload) Note() string {
	who, serve := "pod "+s.Pod, "serves"
	if s.Pods > 1 {
		who, serve = fmt.Sprintf("%d pods (%s among them)", s.Pods, s.Pod), "serve"
	}
	since := s.Since.UTC().Format("2006-01-02 15:04:05 MST")
	switch {
	case s.Distrusted:
		return fmt.Sprintf("%s %s a certificate that clients have not accepted since %s", who, serve, since)
	case s.Key == pods.PodKey:
		return fmt.Sprintf("%s %s a certificate that should have been replaced by %s", who, serve, since)
	}
	return fmt.Sprintf("%s %s an older certificate than Secret %s has held since %s", who, serve, s.Key, since)
}

// Objects returns the object of an event about the pods, and the related Service. uid is the
// workload's, if its pods only know its name.
func (s StaleWorkload) Objects(namespace string, uid types.UID) (regarding, related runtime.Object) {
	if s.Service != "" {
		related = &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: s.Service, UID: s.ServiceUID}
	}
	if s.Workload.Bare() || s.Workload.Node() {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: s.Pod, UID: s.PodUID}, related
	}
	return s.Workload.Reference(namespace, uid), related
}

// staleGroups are the stale pods, grouped by event.
type staleGroups map[notification]*StaleWorkload

// add adds a stale pod to the group of its workload, and returns the group's key.
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
