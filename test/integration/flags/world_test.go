package flags

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var attempt = api.AttemptOf("example.com/app", "", nil, []string{"--tls-cert-file=/etc/servingcert/tls.crt"})

// place is a namespace with Service web, which asks for Secret web-tls.
type place struct {
	t    *testing.T
	name string
	web  *corev1.Service
}

func newPlace(t *testing.T) place {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	require.NoError(t, admin.Create(t.Context(), ns))
	p := place{t: t, name: ns.Name}
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "default"}})), "pods need one")
	p.web = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443}}},
	}
	require.NoError(t, admin.Create(t.Context(), p.web))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.WithoutCancel(t.Context()), p.web)) })
	return p
}

// optIn sets the namespace's label.
func (p place) optIn(value string) {
	p.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.LabelInject, value)
	require.NoError(p.t, admin.Patch(p.t.Context(), ns, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// pod makes one of a Deployment, which does not exist, or of none: with the attempt, or
// with it withheld.
func (p place) pod(name, workload string, withheld bool) *corev1.Pod {
	p.t.Helper()
	status := api.InjectionStatus{Secret: "web-tls", Service: "web", Containers: map[string]string{"app": "files,env,flags"}, Attempts: map[string]string{"app": attempt}}
	if withheld {
		status.Attempts, status.Withheld = nil, status.Attempts
	}
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.name, Name: name, Labels: map[string]string{"app": "web", "pod-template-hash": "abc", api.LabelInjected: "true"},
			Annotations: map[string]string{api.AnnotationStatus: status.Format()},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "app", Image: "example.com/app:1", Args: []string{"--port=80", "--tls-cert-file=/etc/servingcert/tls.crt"},
				VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/etc/servingcert"}},
			}},
			Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls"}}}},
		},
	}
	if workload != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload + "-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}}
	}
	require.NoError(p.t, admin.Create(p.t.Context(), pod))
	p.t.Cleanup(func() {
		require.NoError(p.t, client.IgnoreNotFound(admin.Delete(context.WithoutCancel(p.t.Context()), pod, client.GracePeriodSeconds(0))))
	})
	return pod
}

// crashes says of a pod what the kubelet does when its container has exited a second
// after its third start, and waits.
func (p place) crashes(pod *corev1.Pod, message string, changes ...func(*corev1.ContainerStateTerminated)) {
	p.t.Helper()
	pod.Status = harness.Crashing(message)
	for _, change := range changes {
		change(pod.Status.ContainerStatuses[0].LastTerminationState.Terminated)
	}
	require.NoError(p.t, admin.Status().Update(p.t.Context(), pod))
}

// serves says of a pod what the kubelet does when it is ready.
func (p place) serves(pod *corev1.Pod) {
	p.t.Helper()
	now := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, PodIP: "127.9.9.9", PodIPs: []corev1.PodIP{{IP: "127.9.9.9"}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}},
	}
	require.NoError(p.t, admin.Status().Update(p.t.Context(), pod))
}

// says waits until condition Flags has the status and the reason, and returns the facts.
func (p place) says(status metav1.ConditionStatus, reason string) state.Flags {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		if err := admin.Get(p.t.Context(), client.ObjectKeyFromObject(p.web), p.web); err != nil {
			return err
		}
		if c := api.Condition(p.web, api.ConditionFlags); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("%s is %+v, want %s %s", api.ConditionFlags, c, status, reason)
		}
		return nil
	})
	return state.FlagsOf(p.web)
}

// saysNothing waits until condition Flags is gone.
func (p place) saysNothing() {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		if err := admin.Get(p.t.Context(), client.ObjectKeyFromObject(p.web), p.web); err != nil {
			return err
		}
		if c := api.Condition(p.web, api.ConditionFlags); c != nil {
			return fmt.Errorf("%s is %+v, want none", api.ConditionFlags, c)
		}
		return nil
	})
}

func (p place) exists(pod *corev1.Pod) bool {
	p.t.Helper()
	var now corev1.Pod
	err := admin.Get(p.t.Context(), client.ObjectKeyFromObject(pod), &now)
	require.NoError(p.t, client.IgnoreNotFound(err))
	return err == nil && now.UID == pod.UID && now.DeletionTimestamp == nil
}

// gone waits until the pod is deleted.
func (p place) gone(pod *corev1.Pod) {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		if p.exists(pod) {
			return fmt.Errorf("pod %s exists", pod.Name)
		}
		return nil
	})
}

// told waits for an event of the reason about the object of that kind and name, and
// returns what it says.
func (p place) told(reason, kind, name string) string {
	p.t.Helper()
	var note string
	harness.Eventually(p.t, func() error {
		var list eventsv1.EventList
		if err := admin.List(p.t.Context(), &list, client.InNamespace(p.name)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Regarding.Kind == kind && e.Regarding.Name == name {
				note = e.Note
				return nil
			}
		}
		return fmt.Errorf("no event %s about %s %s", reason, kind, name)
	})
	return note
}

// counts waits until the series with these label values, if any, has the value.
func counts(t *testing.T, registry *prometheus.Registry, name string, want float64, labels ...string) {
	t.Helper()
	harness.Eventually(t, func() error {
		families, err := registry.Gather()
		if err != nil {
			return err
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				var values []string
				for _, l := range m.GetLabel() {
					values = append(values, l.GetValue())
				}
				if f.GetName() == name && strings.Join(values, " ") == strings.Join(labels, " ") && m.GetGauge().GetValue()+m.GetCounter().GetValue() == want {
					return nil
				}
			}
		}
		return fmt.Errorf("%s%v is not %v", name, labels, want)
	})
}
