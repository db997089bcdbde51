// Package decision hands the webhook's choice of a Secret to those who judge pods
// that exist already: pkg/rotator does not import pkg/mutate, and the two must
// not differ.
package decision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/rotator/missed"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Choose is the webhook's decision for the pods of a template; see missed.Choose.
func Choose(t pods.Template, conventional bool, services []*corev1.Service) missed.Choice {
	c := mutate.Choose(t.Pod(), api.PodRequest{SecretName: t.SecretName}, mutate.Known{Services: services, ConventionalSecret: conventional})
	secret := c.Secret
	if c.PodKey != nil {
		secret = pods.PodKey
	}
	return missed.Choice{Secret: secret, Service: c.Service, Conventional: c.By == mutate.ByConvention, NotServing: c.NotServing}
}
