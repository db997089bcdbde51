package cluster

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/facts"
	podfacts "github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const benchPods = 30_000

// typicalPod is the i-th of a cluster of Deployments of ten pods, ten Deployments
// to a namespace. It is decoded as from the API server, so that it shares no
// memory with any other.
func typicalPod(tb testing.TB, i int) *corev1.Pod {
	tb.Helper()
	workload := fmt.Sprintf("checkout-backend-%d", i/10%10)
	hash := fmt.Sprintf("7d9f%06d", i/10)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-payments-%d", i/100), Name: fmt.Sprintf("%s-%s-%05d", workload, hash, i),
			UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", ResourceVersion: fmt.Sprint(100_000 + i),
			Labels: map[string]string{
				"app": workload, "pod-template-hash": hash, "app.kubernetes.io/name": workload,
				"app.kubernetes.io/part-of": "payments", "app.kubernetes.io/managed-by": "Helm", "topology.kubernetes.io/zone": "eu-central-1a",
			},
			Annotations: map[string]string{
				"checksum/config":      "4c8a7d6f3f5f1a1f0d2e3c4b5a69788796a5b4c3d2e1f00112233445566778899",
				"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
			},
			OwnerReferences: []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", workload+"-"+hash)},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 2500))},
				{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1500))},
			},
		},
		Spec: corev1.PodSpec{NodeName: "ip-10-0-12-34.eu-central-1.compute.internal", ServiceAccountName: workload},
	}
	for _, name := range []string{"server", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example.com/payments/" + name + ":1.2.3", Args: []string{"--listen=:8443", "--log-format=json"},
			Env:   []corev1.EnvVar{{Name: "A", Value: "some value"}, {Name: "B", Value: "another"}},
			Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("https")},
			}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, ImageID: "registry.example.com/x@sha256:0", ContainerID: "containerd://1"})
	}
	rotatortest.ProjectedVolume("web-tls")(pod)
	rotatortest.SecretVolume("settings")(pod)
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
	}
	pod.Status.Phase = corev1.PodRunning
	data, err := pod.Marshal()
	require.NoError(tb, err)
	decoded := &corev1.Pod{}
	require.NoError(tb, decoded.Unmarshal(data))
	return decoded
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// filledCache has benchPods pods, which arrived like those of a cluster.
func filledCache(b *testing.B) *Pods {
	b.Helper()
	arriving := watch.NewFake()
	informer, err := facts.NewInformerOf(&toolscache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) { return &corev1.PodList{}, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return arriving, nil },
	}, podOptions())
	require.NoError(b, err)
	pods := &Pods{informer}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = pods.Start(ctx)
	}()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	got := make(chan struct{}, benchPods)
	counted := pods.Source("pods", func(context.Context, facts.Queue, *podfacts.Facts, *podfacts.Facts) { got <- struct{}{} })
	require.NoError(b, counted.Start(ctx, nil))
	for i := range benchPods {
		arriving.Add(typicalPod(b, i))
	}
	arriving.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "1000000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	for range benchPods {
		<-got
	}
	return pods
}

// BenchmarkMemory reports the memory of the cache of pods, beside that of a cache of whole pods.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := heap()
		whole := make([]*corev1.Pod, benchPods/10)
		for i := range whole {
			whole[i] = typicalPod(b, i)
		}
		b.ReportMetric(float64(heap()-before)/float64(len(whole)), "B/whole-pod")
		runtime.KeepAlive(whole)

		before = heap()
		pods := filledCache(b)
		b.ReportMetric(float64(heap()-before)/benchPods, "B/pod")
		runtime.KeepAlive(pods)
	}
}
