package uninjected

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// BenchmarkDecide decides about a namespace of 5000 missed pods of 500 Deployments, with 50
// Services.
func BenchmarkDecide(b *testing.B) {
	s := Situation{Place: Place{OptedIn: true}, MaxEvents: 10}
	for i := range 50 {
		s.Place.Services = append(s.Place.Services, rotatortest.Service(fmt.Sprintf("s%02d", i), fmt.Sprintf("s%02d-tls", i), "app", fmt.Sprintf("checkout-backend-%d", i)))
	}
	for i := range 5000 {
		workload, hash := fmt.Sprintf("checkout-backend-%d", i/10%10), fmt.Sprintf("7d9f%06d", i/10)
		s.Pods = append(s.Pods, pods.FactsOf(rotatortest.Pod(
			rotatortest.Label("app", workload), rotatortest.Label("pod-template-hash", hash), rotatortest.Label("app.kubernetes.io/part-of", "payments"),
			func(p *corev1.Pod) {
				p.Name = fmt.Sprintf("%s-%s-%05d", workload, hash, i)
				p.OwnerReferences = append(p.OwnerReferences, rotatortest.ControlledBy("apps/v1", "ReplicaSet", workload+"-"+hash))
			},
		)))
	}
	var d Decision
	for b.Loop() {
		d = Decide(s)
	}
	require.Equal(b, 5000, d.Pods)
}
