package apply

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
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
