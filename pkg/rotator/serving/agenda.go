package serving

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// agenda is which pods are dialled now, and how soon there is something to do next, 0 if
// nothing is waited for.
type agenda struct {
	dial  []probe.Visit
	after time.Duration
}

// add has the pod dialled now, or notes when to look again.
func (a *agenda) add(c consumer, v *view) {
	at, ok := c.next(v.about, v.Pace)
	if !ok {
		return
	}
	if at.After(v.Now) {
		a.look(at.Sub(v.Now))
		return
	}
	ports, partial := c.due(v.Now, v.Pace)
	if len(ports) == 0 {
		a.look(v.Pace.Pause)
		return
	}
	visit := v.visit(c)
	visit.Ports, visit.Partial = ports, partial
	a.dial = append(a.dial, visit)
}

// look notes that there is something to do after a while.
func (a *agenda) look(wait time.Duration) {
	if a.after == 0 || wait < a.after {
		a.after = wait
	}
}

// visit returns how the pod is dialled, without its ports.
func (v *view) visit(c consumer) probe.Visit {
	visit := probe.Visit{
		Key:     probe.Key{Of: pods.NamespacedKey{Namespace: v.Namespace, Key: v.about.key()}, Pod: c.pod.UID},
		Address: c.pod.IP, HostNetwork: c.pod.HostNetwork, OnNode: c.pod.OnNode,
		Name: c.endpoint.name, Protocols: c.endpoint.protocols,
	}
	v.about.ask(&visit, c.endpoint)
	return visit
}

func hostnames(services []*corev1.Service) []string {
	names := make([]string, len(services))
	for i, svc := range services {
		names[i] = hostname(svc)
	}
	return names
}
