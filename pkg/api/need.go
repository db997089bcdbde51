package api

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Need is what the pods of a Service must serve before its TLS counts as served.
type Need struct {
	// Targets holds the targetPorts. If there are several, one is enough: the Service marks none of
	// its ports as TLS. It is empty if the Service has no TCP port.
	Targets []ProbeTarget
	// Declared: the pods only have to declare the port. Its name resembles that of a proxy's port
	// ([LooksLikeProxyPort]): if no container declares it, it leads nowhere.
	Declared bool
}

// String returns the targetPorts, such as "sc-tls-8080" or "8443 or 9443".
func (n Need) String() string {
	names := make([]string, len(n.Targets))
	for i, t := range n.Targets {
		names[i] = t.Target.String()
	}
	return strings.Join(names, " or ")
}

// Needs returns what the pods of the Service must serve, each targetPort once, in the order of the
// Service's ports. It returns at least one Need, which is empty for a Service that is too large
// ([CheckSize]).
func Needs(svc *corev1.Service) []Need {
	if CheckSize(svc) != nil {
		return []Need{{}}
	}
	var named, candidates []ProbeTarget
	seen := map[ProbeTarget]bool{}
	for _, t := range ProbeTargets(svc) {
		t.Port = 0
		key := ProbeTarget{Target: t.Target, Named: t.Named}
		switch {
		case seen[key]:
		case t.Named:
			named = append(named, t)
		default:
			candidates = append(candidates, t)
		}
		seen[key] = true
	}
	var needs []Need
	for _, t := range named {
		needs = append(needs, Need{Targets: []ProbeTarget{t}})
	}
	if len(named) == 0 {
		needs = append(needs, Need{Targets: candidates})
	}
	for _, p := range svc.Spec.Ports {
		target := TargetPort(p)
		is := func(t ProbeTarget) bool { return t.Target == target }
		known := func(n Need) bool { return len(n.Targets) == 1 && is(n.Targets[0]) }
		if isTCP(p) && target.Type == intstr.String && LooksLikeProxyPort(target.StrVal) && !slices.ContainsFunc(needs, known) {
			needs = append(needs, Need{Targets: []ProbeTarget{{Target: target}}, Declared: true})
		}
	}
	return needs
}

// NeedsHash returns a hash of the Needs of the Service, which changes with them.
func NeedsHash(svc *corev1.Service) string { return hashOf(Needs(svc)) }
