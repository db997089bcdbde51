package apply

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/servingcert/servingcert/pkg/plan"
)

// numbers are those of a Service's ports, in order.
func numbers(svc *corev1.Service) (out []int32) {
	for _, p := range svc.Spec.Ports {
		out = append(out, p.Port)
	}
	return out
}

// TestTheFirstPortStays: scripts read .spec.ports[0].
func TestTheFirstPortStays(t *testing.T) {
	w := newWorld(t)
	_ = w.run(t) // no signer issues anything
	assert.Equal(t, []int32{80, 443}, numbers(w.svc(t)))
}

// TestPortsKeepTheirOrder: also those that get a name, and two of one number.
func TestPortsKeepTheirOrder(t *testing.T) {
	svc := &corev1.Service{}
	for _, p := range []corev1.ServicePort{
		{Name: "", Port: 9000, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
		{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP}, {Name: "", Port: 80, Protocol: corev1.ProtocolTCP},
	} {
		p.TargetPort = intstr.FromInt32(p.Port)
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	patch := &plan.Patch{Spec: &plan.PatchSpec{Ports: []plan.PatchPort{
		{Name: "http", Port: 9000, Protocol: "TCP", TargetPort: 9000}, {Name: "https", Port: 443, Protocol: "TCP", TargetPort: "sc-tls-9000"},
		{Name: "http-2", Port: 80, Protocol: "TCP", TargetPort: 80}, {Name: "https-2", Port: 8443, Protocol: "TCP", TargetPort: "sc-tls-80"},
	}}}
	original, err := json.Marshal(svc)
	require.NoError(t, err)
	merged, err := strategicpatch.StrategicMergePatch(original, inOrder(patch, svc), corev1.Service{})
	require.NoError(t, err)
	after := &corev1.Service{}
	require.NoError(t, json.Unmarshal(merged, after))
	assert.Equal(t, []int32{9000, 53, 53, 80, 443, 8443}, numbers(after))
	assert.Equal(t, corev1.ProtocolUDP, after.Spec.Ports[1].Protocol)
	assert.NoError(t, patch.Only(svc, after))
}
