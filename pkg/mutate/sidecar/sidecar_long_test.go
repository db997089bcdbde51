//go:build long

package sidecar

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

// TestAProxyWithManyMountsCostsLittle: anybody may write a container with the proxy's name, and as many mounts and
// volumes as fit into a pod. Compared are processor times: the factor is far from both 8 and 64.
func TestAProxyWithManyMountsCostsLittle(t *testing.T) {
	without := func(n int) func() {
		var mounts []string
		for i := range n {
			mounts = append(mounts, fmt.Sprintf("servingcert-proxy-%06d", i))
		}
		pod := podOfProxy(mounts...)
		for i := range n {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: mounts[n-1-i]})
		}
		return func() { Without(pod) }
	}
	assert.Less(t, bounded.Growth(without(2_000), without(16_000)), 24.0)
}

// TestServicesWithManyPortsCostLittle: to find the targetPorts of a Service that speak HTTP/2 takes time by the
// number of its ports.
func TestServicesWithManyPortsCostLittle(t *testing.T) {
	targets := func(n int) func() {
		svc := &corev1.Service{}
		for i := range n {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: int32(i), TargetPort: intstr.FromString(fmt.Sprintf("sc-tls-%d", 1+i))})
		}
		secure, reach := api.TLSTargets(svc), api.ReachOf(podWith())
		return func() { TargetsOf(svc, secure, reach) }
	}
	assert.Less(t, bounded.Growth(targets(1_000), targets(8_000)), 24.0)
}
