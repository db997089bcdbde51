package restart

import (
	"fmt"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// AnnotationRestartedAt is what kubectl rollout restart writes on a pod template,
// RFC 3339. The rotator uses kubectl's annotation, so that either sees the other's
// restarts, and there is nothing else to clean up or to explain.
const AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// Standing is what the API server says of a workload, as far as a restart
// depends on it.
type Standing struct {
	// Problem is why it may not be read, or empty. Gone: it does not exist.
	Problem string
	Gone    bool

	uid             types.UID
	resourceVersion string
	deleting        bool
	paused          bool
	onDelete        bool      // a new template makes no new pods
	asks            bool      // its template says that it may be restarted
	restartedAt     time.Time // zero if it never was
	selector        labels.Selector
	template        map[string]string // labels of its pods
	wanted          int32             // pods

	progress progress
}

// Done reports whether all pods that its template asks for are there and ready, and no older ones.
func (s Standing) Done() bool { return s.progress.done }

// KeepsPods reports whether a changed template replaces no pods: it is paused, or its pods are replaced by
// whoever deletes them.
func (s Standing) KeepsPods() bool { return s.paused || s.onDelete }

// Progress says how far a rollout is.
func (s Standing) Progress() string { return s.progress.counts.String() }

// progress is how far a workload's rollout is, by the rules of kubectl rollout status.
type progress struct {
	done bool
	// exceeded: the Deployment exceeded its progress deadline.
	exceeded bool
	// deadline is the Deployment's own patience, 0 if it has none.
	deadline time.Duration
	counts   counts
}

// counts change as long as a rollout progresses.
type counts struct{ observed, total, updated, ready int64 }

func (c counts) String() string {
	return fmt.Sprintf("pods: %d, new: %d, ready: %d", c.total, c.updated, c.ready)
}

// StandingOf returns the standing of a workload, or false if it is of a kind that
// cannot be restarted.
func StandingOf(workload runtime.Object) (Standing, bool) {
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return deploymentStanding(w), true
	case *appsv1.StatefulSet:
		return statefulSetStanding(w), true
	case *appsv1.DaemonSet:
		return daemonSetStanding(w), true
	}
	return Standing{}, false
}

// ServiceStanding is what the API server says of the Service that asks for a
// Secret.
type ServiceStanding struct {
	Ready bool
	Leaf  string // that its condition names
}

// ServiceStandingOf returns the standing of a Service.
func ServiceStandingOf(svc *corev1.Service) ServiceStanding {
	leaf, _ := state.LeafOf(svc)
	ready := api.Condition(svc, api.ConditionReady)
	return ServiceStanding{ready != nil && ready.Status == metav1.ConditionTrue, leaf}
}

func deploymentStanding(d *appsv1.Deployment) Standing {
	s := standingOf(&d.ObjectMeta, d.Spec.Selector, &d.Spec.Template)
	s.paused, s.wanted = d.Spec.Paused, orOne(d.Spec.Replicas)
	status := d.Status
	s.progress.counts = counts{status.ObservedGeneration, int64(status.Replicas), int64(status.UpdatedReplicas), int64(status.AvailableReplicas)}
	if p := d.Spec.ProgressDeadlineSeconds; p != nil && *p != math.MaxInt32 { // which stands for none
		s.progress.deadline = time.Duration(*p) * time.Second
	}
	if d.Generation > status.ObservedGeneration {
		return s
	}
	for _, c := range status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			s.progress.exceeded = true
		}
	}
	s.progress.done = !s.progress.exceeded && status.UpdatedReplicas >= s.wanted && status.Replicas <= status.UpdatedReplicas &&
		status.AvailableReplicas >= status.UpdatedReplicas
	return s
}

func statefulSetStanding(set *appsv1.StatefulSet) Standing {
	s := standingOf(&set.ObjectMeta, set.Spec.Selector, &set.Spec.Template)
	s.wanted = orOne(set.Spec.Replicas)
	s.onDelete = api.KeepsOldPods(set)
	partition := int32(0)
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		partition = *r.Partition
	}
	status := set.Status
	s.progress.counts = counts{status.ObservedGeneration, int64(status.Replicas), int64(status.UpdatedReplicas), int64(status.ReadyReplicas)}
	switch {
	case set.Generation > status.ObservedGeneration, status.ReadyReplicas < s.wanted:
	case partition > 0:
		s.progress.done = status.UpdatedReplicas >= s.wanted-partition
	default:
		s.progress.done = status.UpdatedReplicas >= s.wanted && status.UpdateRevision == status.CurrentRevision
	}
	return s
}

func daemonSetStanding(set *appsv1.DaemonSet) Standing {
	s := standingOf(&set.ObjectMeta, set.Spec.Selector, &set.Spec.Template)
	status := set.Status
	s.wanted = status.DesiredNumberScheduled
	s.onDelete = api.KeepsOldPods(set)
	s.progress.counts = counts{status.ObservedGeneration, int64(status.CurrentNumberScheduled), int64(status.UpdatedNumberScheduled), int64(status.NumberAvailable)}
	s.progress.done = set.Generation <= status.ObservedGeneration && status.UpdatedNumberScheduled >= s.wanted && status.NumberAvailable >= s.wanted
	return s
}

func standingOf(meta *metav1.ObjectMeta, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) Standing {
	s := Standing{
		uid: meta.UID, resourceVersion: meta.ResourceVersion, deleting: meta.DeletionTimestamp != nil,
		template: template.Labels, asks: template.Annotations[api.AnnotationOnRotate] == string(api.OnRotateRestart),
	}
	var err error
	if s.selector, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		s.selector = labels.Nothing()
	}
	if at, err := time.Parse(time.RFC3339, template.Annotations[AnnotationRestartedAt]); err == nil {
		s.restartedAt = at
	}
	return s
}

func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// restartedSince reports whether it was restarted, by whomever, after a leaf had
// become what it should serve. Both times are known to the second: of a restart in
// the same one it is not known what its pods have read.
func (s Standing) restartedSince(since time.Time) bool {
	return s.restartedAt.After(since.Truncate(time.Second))
}
