// Package decision gives the webhook's choice of a Secret to those who check existing pods:
// pkg/rotator does not import pkg/mutate, and the two must not differ.
package decision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// Choose returns the webhook's decision for the pods of a template; see uninjected.Choose.
func Choose(t pods.Template, conventional bool, services []*corev1.Service) uninjected.Choice {
	c := choose.Secret(t.Pod(), api.PodRequest{SecretName: t.SecretName}, choose.Known{Services: services, ConventionalSecret: conventional})
	key := pods.SecretKey(c.Secret)
	if c.PodKey != nil {
		key = pods.PodKey
	}
	return uninjected.Choice{Key: key, Service: c.Service, Conventional: c.By == choose.ByConvention, NotServing: c.NotServing}
}
