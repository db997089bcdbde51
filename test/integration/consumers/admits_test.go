package consumers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// guardedPort is the port of the proxies.
const guardedPort = "sc-tls-8080"

// hasProxy gives a pod a proxy that admits the clients.
func hasProxy(admits string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		p.Annotations = map[string]string{api.AnnotationAdmits: admits}
		p.Spec.InitContainers = []corev1.Container{{
			Name: api.ProxyContainer, Image: "example.com/proxy", RestartPolicy: &always,
			Args: []string{"--listen=" + guardedPort + "=15444:8080", "--clients=/etc/servingcert-clients/clients"},
		}}
	}
}

// admits waits until the pod admits the clients.
func admits(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	harness.Eventually(t, func() error {
		if got, has := read(t, pod).Annotations[api.AnnotationAdmits]; !has || got != want {
			return fmt.Errorf("pod %s admits %q, want %q", pod.Name, got, want)
		}
		return nil
	})
}

// A change of a list reaches the pods, also where pods are not woken for certificates. What somebody else
// wrote is put back, and a port whose Service is deleted stays as it was.
func TestAChangedListReachesThePods(t *testing.T) {
	for _, wakes := range []bool{true, false} {
		t.Run(fmt.Sprintf("wake=%t", wakes), func(t *testing.T) {
			startRotator(t, func(c *rotator.Config) { c.KubeletSync.Enabled = wakes })
			s := newShop(t, 1, hasProxy(guardedPort+"=any"))
			lists := func(clients string) {
				harness.Change(t, admin, s.svc, func(svc *corev1.Service) {
					svc.Annotations[api.AnnotationClients] = clients
					svc.Spec.Ports[0].TargetPort = intstr.FromString(guardedPort)
				})
			}
			lists("shop/cart, shop/cart, monitoring/*")
			admits(t, s.pods[0], guardedPort+"=monitoring/*,shop/cart")
			lists("nonsense")
			admits(t, s.pods[0], guardedPort+"=")
			lists("any")
			admits(t, s.pods[0], guardedPort+"=any")
			forged := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationAdmits, guardedPort+"=watch")
			removed := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, api.AnnotationAdmits)
			for _, patch := range [][]byte{forged, removed} {
				require.NoError(t, admin.Patch(t.Context(), s.pods[0].DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
				admits(t, s.pods[0], guardedPort+"=any")
			}

			remove(t, s.svc)
			marker := newShop(t, 1, hasProxy(guardedPort+"="))
			harness.Change(t, admin, marker.svc, func(svc *corev1.Service) {
				svc.Annotations[api.AnnotationClients] = "any"
				svc.Spec.Ports[0].TargetPort = intstr.FromString(guardedPort)
			})
			admits(t, marker.pods[0], guardedPort+"=any")
			assert.Equal(t, guardedPort+"=any", read(t, s.pods[0]).Annotations[api.AnnotationAdmits], "the Service is gone, and may come back")
		})
	}
}
