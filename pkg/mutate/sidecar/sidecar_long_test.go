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
