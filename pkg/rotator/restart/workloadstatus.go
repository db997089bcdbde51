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

// AnnotationRestartedAt is the annotation that kubectl rollout restart writes on a pod template, in
// RFC 3339. The rotator uses the same one, so that each recognizes the other's restarts.
const AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// WorkloadStatus is what a restart depends on of a workload, as read from the API server.
type WorkloadStatus struct {
	// Problem is the error if reading is forbidden, or empty. Gone: the workload does not exist.
	Problem string
	Gone    bool

	uid             types.UID
	resourceVersion string
	deleting        bool
	paused          bool
	onDelete        bool              // a new template does not replace the pods
	asks            bool              // its template requests restarts
	restartedAt     time.Time         // zero: never
	selector        labels.Selector   // nil: the selector, or the labels of its pods, are too large
	template        map[string]string // the labels of its pods
	wanted          int32             // number of pods

	progress progress
}

// Done reports whether the rollout is complete: all pods are new and ready.
func (s WorkloadStatus) Done() bool { return s.progress.done }

// KeepsPods reports whether a changed template does not replace the pods: the workload is paused,
// or its update strategy is OnDelete.
func (s WorkloadStatus) KeepsPods() bool { return s.paused || s.onDelete }

// Progress describes the progress of the rollout.
func (s WorkloadStatus) Progress() string { return s.progress.counts.String() }

// progress is that of a workload's rollout, by the rules of kubectl rollout status.
type progress struct {
	done bool
	// exceeded: the Deployment exceeded its progress deadline.
	exceeded bool
	// deadline is the Deployment's progress deadline; 0: none.
	deadline time.Duration
	counts   counts
}

// counts change whenever a rollout progresses.
type counts struct{ observed, total, updated, ready int64 }

func (c counts) String() string {
	return fmt.Sprintf("pods: %d, new: %d, ready: %d", c.total, c.updated, c.ready)
}

// WorkloadStatusOf returns the status of a workload; false if its kind cannot be restarted.
func WorkloadStatusOf(workload runtime.Object) (WorkloadStatus, bool) {
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return deploymentStatus(w), true
	case *appsv1.StatefulSet:
		return statefulSetStatus(w), true
	case *appsv1.DaemonSet:
		return daemonSetStatus(w), true
	}
	return WorkloadStatus{}, false
}

// ServiceStatus is what a restart depends on of the Service that requests the Secret.
type ServiceStatus struct {
	Ready bool
	Leaf  string // in its condition
}

// ServiceStatusOf returns the status of a Service.
func ServiceStatusOf(svc *corev1.Service) ServiceStatus {
	leaf, _ := state.LeafOf(svc)
	ready := api.Condition(svc, api.ConditionReady)
	return ServiceStatus{ready != nil && ready.Status == metav1.ConditionTrue, leaf}
}

func deploymentStatus(d *appsv1.Deployment) WorkloadStatus {
	s := commonStatus(&d.ObjectMeta, d.Spec.Selector, &d.Spec.Template)
	s.paused, s.wanted = d.Spec.Paused, orOne(d.Spec.Replicas)
	status := d.Status
	s.progress.counts = counts{status.ObservedGeneration, int64(status.Replicas), int64(status.UpdatedReplicas), int64(status.AvailableReplicas)}
	if p := d.Spec.ProgressDeadlineSeconds; p != nil && *p != math.MaxInt32 { // which means none
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

func statefulSetStatus(set *appsv1.StatefulSet) WorkloadStatus {
	s := commonStatus(&set.ObjectMeta, set.Spec.Selector, &set.Spec.Template)
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

func daemonSetStatus(set *appsv1.DaemonSet) WorkloadStatus {
	s := commonStatus(&set.ObjectMeta, set.Spec.Selector, &set.Spec.Template)
	status := set.Status
	s.wanted = status.DesiredNumberScheduled
	s.onDelete = api.KeepsOldPods(set)
	s.progress.counts = counts{status.ObservedGeneration, int64(status.CurrentNumberScheduled), int64(status.UpdatedNumberScheduled), int64(status.NumberAvailable)}
	s.progress.done = set.Generation <= status.ObservedGeneration && status.UpdatedNumberScheduled >= s.wanted && status.NumberAvailable >= s.wanted
	return s
}

func commonStatus(meta *metav1.ObjectMeta, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) WorkloadStatus {
	s := WorkloadStatus{
		uid: meta.UID, resourceVersion: meta.ResourceVersion, deleting: meta.DeletionTimestamp != nil,
		selector: selectorOf(selector), template: template.Labels, asks: template.Annotations[api.AnnotationOnRotate] == string(api.OnRotateRestart),
	}
	if sizeOf(template.Labels) > maxLabels {
		s.selector, s.template = nil, nil
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

// restartedSince reports whether the workload was restarted after the given time. Both times have
// seconds only: pods of a restart in the same second may have read either certificate.
func (s WorkloadStatus) restartedSince(since time.Time) bool {
	return s.restartedAt.After(since.Truncate(time.Second))
}
