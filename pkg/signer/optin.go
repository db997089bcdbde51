package signer

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// MayHavePodKeys reports whether the Service, which asks for a certificate, may have any
// for keys that pods, programs or hosts make: its namespace is opted in, or was when they
// made theirs. The latter is known by its condition, which only the signer writes: what is
// in use goes on when the label is taken away.
func MayHavePodKeys(svc *corev1.Service, optedIn bool) bool {
	return optedIn || api.HasPodKeys(svc)
}

// WasOptedIn reports whether the signer has issued for the Service before, in whichever
// way. A pod of such a Service may wait for the label of its namespace.
func WasOptedIn(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue
}
