package consumers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const soon = harness.Soon

// create makes an object, and deletes it when the test ends.
func create(t testing.TB, obj client.Object) {
	t.Helper()
	require.NoError(t, admin.Create(context.Background(), obj))
	t.Cleanup(func() { remove(t, obj) })
}

func remove(t testing.TB, obj client.Object) {
	t.Helper()
	require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), obj, client.GracePeriodSeconds(0))))
}

// newService makes one that selects app=NAME, asks for Secret NAME-tls and leads
// to the port.
func newService(t testing.TB, namespace, name string, target intstr.IntOrString, changes ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	svc := harness.Service(namespace, name)
	svc.Spec.ClusterIP, svc.Spec.Ports = corev1.ClusterIPNone, []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: target}}
	for _, change := range changes {
		change(svc)
	}
	create(t, svc)
	return svc
}

// issued says of a Service what the signer does.
func issued(t testing.TB, svc *corev1.Service, pair *tls.Certificate) {
	t.Helper()
	setReady(t, svc, metav1.Condition{Status: metav1.ConditionTrue, Reason: "Issued", Message: "names"},
		state.Ready{Secret: svc.Annotations[api.AnnotationSecretName], Request: "abc", Leaf: fingerprint(pair)})
}

func setReady(t testing.TB, svc *corev1.Service, condition metav1.Condition, said state.Ready) {
	t.Helper()
	condition.Type, condition.LastTransitionTime = api.ConditionReady, metav1.Now()
	say(t, svc, state.Say(condition, said))
}

// stated returns the state beside the Service's condition Serving.
func stated(t testing.TB, svc *corev1.Service) state.Serving {
	t.Helper()
	var now corev1.Service
	require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(svc), &now))
	said, _ := state.ServingOf(&now)
	return said
}

func say(t testing.TB, svc *corev1.Service, said *state.Condition) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": said.Both()}})
	require.NoError(t, err)
	require.NoError(t, admin.Status().Patch(context.Background(), svc.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)))
}

// newPod makes one of a Deployment of that name, which does not exist, that mounts
// Secret NAME-tls and has label app=NAME.
func newPod(t testing.TB, namespace, name, workload string, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app": workload, "pod-template-hash": "abc"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload + "-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "example.com/x", VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}}},
			Volumes:    []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: workload + "-tls"}}}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	create(t, pod)
	return pod
}

// isReady says of a pod what the kubelet does.
func isReady(t testing.TB, pod *corev1.Pod, ip netip.Addr, yes bool) {
	t.Helper()
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	if yes {
		condition.Status = corev1.ConditionTrue
	}
	status := map[string]any{
		"phase": corev1.PodRunning, "podIP": ip.String(), "podIPs": []corev1.PodIP{{IP: ip.String()}}, "conditions": []corev1.PodCondition{condition},
	}
	if pod.Spec.HostNetwork {
		status["hostIP"], status["hostIPs"] = ip.String(), []corev1.HostIP{{IP: ip.String()}}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	require.NoError(t, err)
	require.NoError(t, admin.Status().Patch(context.Background(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)))
}

// serving returns the Service's condition, nil if it has none.
func serving(t testing.TB, svc *corev1.Service) *metav1.Condition {
	t.Helper()
	var now corev1.Service
	require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(svc), &now))
	return api.Condition(&now, api.ConditionServing)
}

// becomes waits until the condition has the status and the reason.
func becomes(t *testing.T, svc *corev1.Service, status metav1.ConditionStatus, reason string) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	harness.Eventually(t, func() error {
		if c = serving(t, svc); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("%s of Service %s is %+v, want %s %s", api.ConditionServing, svc.Name, c, status, reason)
		}
		return nil
	})
	return c
}

// history is what a Service's condition said, one entry for each update of it.
type history struct {
	mu   sync.Mutex
	said []string
	last *metav1.Condition
}

// watchServing records every update of a Service from now on that is not the
// signer's.
func watchServing(t testing.TB, svc *corev1.Service) *history {
	t.Helper()
	h := &history{}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := admin.Watch(ctx, &corev1.ServiceList{}, client.InNamespace(svc.Namespace), client.MatchingFields{"metadata.name": svc.Name})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if now, ok := e.Object.(*corev1.Service); ok {
				h.add(api.Condition(now, api.ConditionServing))
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		w.Stop()
		<-done
	})
	return h
}

func (h *history) add(c *metav1.Condition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c != nil && (h.last == nil || *h.last != *c) {
		h.said = append(h.said, string(c.Status)+" "+c.Reason)
		h.last = c
	}
}

func (h *history) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

// until waits until the watch, which may be behind, has seen so many updates, the last of which
// says last.
func (h *history) until(t testing.TB, least int, last string) []string {
	t.Helper()
	harness.Eventually(t, func() error {
		if said := h.all(); len(said) < least || said[len(said)-1] != last {
			return fmt.Errorf("the watch has seen %v", said)
		}
		return nil
	})
	return h.all()
}
