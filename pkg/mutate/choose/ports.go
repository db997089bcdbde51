package choose

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
)

// maxTargets is the largest number of targetPorts of a pod, of all Services that select it.
const maxTargets = api.MaxPorts

// addServices adds the settings and ports of the Services that request a certificate and select the
// pod.
func (c *Choice) addServices(selecting []service, reach api.Reach) {
	added, full := map[intstr.IntOrString]int{}, ""
	for _, s := range selecting {
		if s.from != c.origin() {
			c.noteOtherProxies(s, reach)
			continue
		}
		if c.Service == "" {
			c.Service = s.Name
			c.ServiceSettings = c.settingsOf("Service "+s.Name, s.Annotations)
		}
		if !c.addPorts(s, reach, added) && full == "" {
			full = s.Name
		}
	}
	if full != "" {
		c.note(reasons.Note{Reason: reasons.TooManyPorts, Detail: "the first of them is of Service " + full})
	}
}

// addPorts adds the Service's ports that serve TLS: those for which the pod gets a proxy, and
// those on which a program of the pod must serve it. reach is that of the pod without its proxy.
// added are the targetPorts of the pod, each with its index in c.Proxied or c.Ports. It returns false
// if there are too many.
func (c *Choice) addPorts(s service, reach api.Reach, added map[intstr.IntOrString]int) (all bool) {
	targets := sidecar.TargetsOf(s.Service, s.targets, reach)
	all = true
	add := func(target intstr.IntOrString, index int) (is bool) {
		if _, have := added[target]; have {
			return false
		}
		if is = len(added) < maxTargets; is {
			added[target] = index
		}
		all = all && is
		return is
	}
	for _, target := range targets.Own {
		if !add(target, len(c.Ports)) {
			continue
		}
		c.Ports = append(c.Ports, target)
		if slices.Contains(targets.Declared, target.StrVal) {
			c.note(reasons.Note{Reason: reasons.ProxyPortDeclared, Detail: target.StrVal})
		}
	}
	for _, p := range targets.Asked {
		target := intstr.FromString(p.Name())
		if add(target, len(c.Proxied)) {
			c.Proxied = append(c.Proxied, p)
		} else if i, have := added[target]; have {
			c.Proxied[i].H2 = c.Proxied[i].H2 || p.H2
		}
	}
	return all
}

// noteOtherProxies notes the Service's ports that request a proxy with another Secret than the
// pod's.
func (c *Choice) noteOtherProxies(s service, reach api.Reach) {
	var names []string
	for _, p := range sidecar.TargetsOf(s.Service, s.targets, reach).Asked {
		names = append(names, p.Name())
	}
	if len(names) > 0 {
		c.note(reasons.Note{Reason: reasons.ProxyOtherSecret, Detail: "Service " + s.Name + ", " + s.from.String() + ": " + reasons.List(names)})
	}
}
