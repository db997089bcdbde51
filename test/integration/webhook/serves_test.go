package webhook_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestPodsThatServeNothing creates pods that the Service selects. Those that its traffic
// cannot reach are stored as they were written, with the reason.
func TestPodsThatServeNothing(t *testing.T) {
	ns := namespace(t, enabled)
	createService(t, t, ns, webService("web"))
	byName := webService("named")
	byName.Spec.Ports[0].TargetPort = intstr.FromString("https")
	createService(t, t, ns, byName)

	hook := func(p *corev1.Pod) { p.Annotations = map[string]string{"helm.sh/hook": "test"} }
	job := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "migrate", UID: "u"}}
	}
	noPort := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }
	portName := func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Name = "https" }
	secret := func(p *corev1.Pod) {
		p.Annotations = map[string]string{"helm.sh/hook": "test", api.AnnotationSecretName: "web-tls"}
	}
	for name, tc := range map[string]struct {
		app     string
		changes []func(*corev1.Pod)
		serves  bool
	}{
		"number":               {"web", []func(*corev1.Pod){noPort}, true},
		"hook-with-port":       {"web", []func(*corev1.Pod){hook}, true},
		"hook":                 {"web", []func(*corev1.Pod){hook, noPort}, false},
		"hook-with-secret":     {"web", []func(*corev1.Pod){secret, noPort}, true},
		"job-with-port":        {"web", []func(*corev1.Pod){job}, true},
		"job":                  {"web", []func(*corev1.Pod){job, noPort}, false},
		"name":                 {"named", []func(*corev1.Pod){portName}, true},
		"hook-with-name":       {"named", []func(*corev1.Pod){hook, portName}, true},
		"name-not-declared":    {"named", nil, false},
		"nothing-declared":     {"named", []func(*corev1.Pod){noPort}, false},
		"hook-of-another-name": {"named", []func(*corev1.Pod){hook}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, w := clientWithWarnings(t)
			pod := webPod(name)
			pod.Labels["app"] = tc.app
			for _, change := range tc.changes {
				change(pod)
			}
			got, err := c.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
			require.NoError(t, err)
			if tc.serves {
				injected(t, got, tc.app+"-tls")
				require.Len(t, w.lines, 1)
				assert.Contains(t, w.lines[0], "the program is not known, and no flags were requested")
				return
			}
			assert.Equal(t, []string{"serve"}, got.Spec.Containers[0].Args)
			assert.Empty(t, got.Spec.Containers[0].Env)
			assert.NotContains(t, got.Labels, api.LabelInjected)
			status, ok := api.ParseInjectionStatus(got.Annotations[api.AnnotationStatus])
			require.True(t, ok)
			assert.Equal(t, "NotServing", status.Reason)
			assert.Empty(t, status.Secret)
			require.Len(t, w.lines, 1)
			assert.True(t, strings.HasPrefix(w.lines[0], "servingcert: no container declares the target port of the Service (Service "+tc.app+": "), w.lines[0])
		})
	}
}

// TestServicesOfOneSecond creates the Services of a chart at once. Most often they are of
// the same second, and then the pod gets the Secret of the one that clients use.
func TestServicesOfOneSecond(t *testing.T) {
	ns := namespace(t, enabled)
	services := client.CoreV1().Services(ns)
	create := func(name string) *corev1.Service {
		svc := webService(name)
		svc.Spec.Selector = map[string]string{"app": "db"}
		switch name {
		case "db":
			svc.Spec.ClusterIP = corev1.ClusterIPNone
		case "db-metrics":
			svc.Spec.Ports[0].Name = "https-metrics"
		}
		svc, err := services.Create(t.Context(), svc, metav1.CreateOptions{})
		assert.NoError(t, err)
		return svc
	}
	harness.Eventually(t, func() error { // nobody can say when they are created
		var made [3]*corev1.Service
		var creating sync.WaitGroup // one after the other is too slow for a second on a busy machine
		for i, name := range []string{"db", "db-metrics", "db-public"} {
			creating.Go(func() { made[i] = create(name) })
		}
		creating.Wait()
		require.False(t, t.Failed())
		if made[0].CreationTimestamp.Equal(&made[1].CreationTimestamp) && made[0].CreationTimestamp.Equal(&made[2].CreationTimestamp) {
			return nil
		}
		for _, svc := range made {
			require.NoError(t, services.Delete(t.Context(), svc.Name, metav1.DeleteOptions{}))
		}
		return errors.New("the three Services were not created in one second")
	})
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the webhook may know one of them before the others
		pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("db"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(c, err)
		injected(c, pod, "db-public-tls")
		assert.Contains(c, pod.Annotations[api.AnnotationStatus], "Service db-public (Secret db-public-tls) is not headless, unlike db")
	}, harness.Soon, 20*time.Millisecond)
}
