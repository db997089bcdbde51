package choose

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// connect chooses the Services to which the pod's proxy connects.
func (c *Choice) connect(pod *corev1.Pod, request api.PodRequest, known Known) {
	entries := request.Or(c.ServiceSettings).Or(c.NamespaceSettings).Connect
	if len(entries) == 0 {
		return
	}
	if pod.Spec.HostNetwork || known.HostFiles != "" {
		c.note(reasons.Note{Reason: reasons.NotConnected, Detail: "the pod uses the network and the hosts file of its node"})
		return
	}
	in, services := cmp.Or(known.In, pod.Namespace), slices.Clone(known.Services)
	for _, e := range entries {
		if e.Namespace != "" && e.Namespace != in && known.Elsewhere != nil {
			if svc := known.Elsewhere(e.Namespace, e.Service); svc != nil {
				services = append(services, svc)
			}
		}
	}
	var left []connect.Left
	c.Connect, left = connect.Targets(pod, in, entries, services, cmp.Or(known.ClusterDomain, api.DefaultLimits().ClusterDomain))
	for _, l := range left {
		c.note(reasons.Note{Reason: reasons.NotConnected, Detail: l.Service + ": " + l.Why})
	}
}
