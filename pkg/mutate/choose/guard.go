package choose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// guard chooses the clients that the pod's proxy admits, and notes the ports at which the lists of the
// Services have no effect. Where pods have identities, each proxy gets a list, so that a Service which is given
// clients later needs no new pods.
func (c *Choice) guard(pod *corev1.Pod, services []*corev1.Service) {
	var proxied, open []string
	for _, p := range c.Proxied {
		proxied = append(proxied, p.Name())
	}
	guarded := false
	for _, svc := range services {
		if _, lists, _ := api.Clients(svc); !lists || !api.Asks(svc) || !api.Selects(svc, pod) {
			continue
		}
		guarded = true
		for _, target := range api.TCPTargets(svc) { // a port in plaintext leads to the same program
			if !slices.Contains(proxied, target.String()) {
				open = append(open, target.String())
			}
		}
	}
	switch {
	case guarded && c.TrustDomain == "":
		c.note(reasons.Note{Reason: reasons.NotGuarded, Detail: "pods have no identities in this cluster: set --trust-domain of the signer (value identities.trustDomain of the chart)"})
		return
	case len(open) > 0:
		slices.Sort(open)
		c.note(reasons.Note{Reason: reasons.NotGuarded, Detail: "no proxy is in front of port " + reasons.List(slices.Compact(open))})
	}
	if c.TrustDomain == "" || len(proxied) == 0 {
		return
	}
	admitted := api.Admits(services, pod.Labels, proxied)
	if c.Admits = admitted.Value; len(admitted.Full) > 0 {
		c.note(reasons.Note{Reason: reasons.TooManyClients, Detail: reasons.List(admitted.Full)})
	}
}
