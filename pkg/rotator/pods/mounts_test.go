package pods

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestBundleStart: the oldest running container that mounts the bundle counts, whatever was restarted beside it.
func TestBundleStart(t *testing.T) {
	noon := rotatortest.Noon
	at := func(name string, started time.Time) corev1.ContainerStatus {
		s := running(name, true)
		s.State.Running.StartedAt = metav1.NewTime(started)
		return s
	}
	mounts := []corev1.VolumeMount{{Name: "logs"}, {Name: "ca"}}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		return rotatortest.Pod(rotatortest.BundleVolume(), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
				{Name: "once", VolumeMounts: mounts},
			}
			p.Spec.Containers = []corev1.Container{{Name: "app", VolumeMounts: mounts}, {Name: "second", VolumeMounts: mounts}, {Name: "log"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{at("sidecar", noon.Add(-2*time.Hour)), at("once", noon.Add(-time.Hour))}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{at("log", noon.Add(-time.Minute)), at("second", noon.Add(time.Minute)), at("app", noon)}
			change(p)
		})
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   time.Time
	}{
		"the first of two": {func(*corev1.Pod) {}, noon},
		"another restarted": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = at("log", noon.Add(time.Hour))
		}, noon},
		"a native sidecar": {func(p *corev1.Pod) { p.Spec.InitContainers[0].VolumeMounts = mounts }, noon.Add(-2 * time.Hour)},
		"it crashes":       {func(p *corev1.Pod) { p.Status.ContainerStatuses[2] = crashing("app", "said") }, noon.Add(time.Minute)},
		"no start yet":     {func(p *corev1.Pod) { p.Status.ContainerStatuses[2] = at("app", time.Time{}) }, noon.Add(time.Minute)},
		"no status":        {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, time.Time{}},
		"no bundle":        {func(p *corev1.Pod) { p.Spec.Volumes = nil }, time.Time{}},
		"as a ClusterTrustBundle": {func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new(api.TrustBundleName)}}},
			}}
		}, noon},
	} {
		assert.Equal(t, tt.want, BundleStart(pod(tt.change)), name)
	}
}
