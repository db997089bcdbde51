// Package decision hands the webhook's choice of a Secret to those who judge pods
// that exist already: pkg/rotator does not import pkg/mutate, and the two must
// not differ.
package decision

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/rotator/missed"
)

// Choose is the webhook's decision for a pod of which no more is known; see
// missed.Choose.
func Choose(labels map[string]string, secretName string, conventional bool, services []*corev1.Service) missed.Choice {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	if conventional { // then it declares one
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{}}}}
	}
	c := mutate.Choose(pod, api.PodRequest{SecretName: secretName}, mutate.Known{Services: services, ConventionalSecret: conventional})
	return missed.Choice{Secret: c.Secret, Service: c.Service, Conventional: c.By == mutate.ByConvention}
}
