package csr

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
)

// refuse returns why the requester may not have the missing names: Deny if one of them can
// never be permitted, otherwise Wait.
func (s Situation) refuse(missing names) Decision {
	var first *Decision
	final := func(d Decision) bool {
		if first == nil || d.Verdict == Deny {
			first = &d
		}
		return d.Verdict == Deny
	}
	for _, name := range missing.dns {
		if final(s.problem(name)) {
			return *first
		}
	}
	for _, ip := range missing.ips {
		if final(s.problemOfIP(ip)) {
			return *first
		}
	}
	return *first
}

// problem returns why the requester may not have a DNS name.
func (s Situation) problem(name string) Decision {
	owner, ok := serviceindex.ServiceOf(name, s.Limits)
	if ok {
		return s.problemOfService(name, owner)
	}
	if !mayBePermitted(name, s.Limits) {
		return deny(reasonInvalidName, "DNS name %q: must be in the domain SVC.NAMESPACE.svc of a Service, or in a suffix that --permit-dns-suffix permits", shown(name))
	}
	return s.problemOfHolders(name, s.Holders[name])
}

// problemOfIP returns why the requester may not have an IP address.
func (s Situation) problemOfIP(ip netip.Addr) Decision {
	if !s.Limits.PermitClusterIPs {
		return deny(reasonInvalidName, "IP address %s: not permitted: the signer was started without --permit-cluster-ips, and its CA excludes all IP addresses", ip)
	}
	return s.problemOfHolders(ip.String(), s.Holders[serviceindex.NameOf(ip)])
}

// problemOfHolders returns why the requester may not have a name outside of the domains of
// Services that these Services have. The message does not name the Services, which may be in
// namespaces that the requester cannot see.
func (s Situation) problemOfHolders(name string, holders []types.NamespacedName) Decision {
	if len(holders) == 0 {
		return wait(reasonNoService, "no Service in an opted-in namespace requests %q", shown(name))
	}
	return deny(reasonNotPermitted, "name %q: user %q is not a pod that a Service with this name selects, and lacks verb %q on services.%s for such a Service",
		shown(name), shown(s.Request.Username), VerbServe, api.Domain)
}

// problemOfService returns why the requester may not have a name in the domains of the
// Service.
func (s Situation) problemOfService(name string, owner types.NamespacedName) Decision {
	pod, bound := s.Request.Pod()
	svc, granted := s.service(owner), s.Grants[owner]
	selected := svc != nil && bound && pod.Namespace == owner.Namespace && api.Selects(svc, s.Pod)
	// The pods that a too large Service selects are not known.
	mayBeSelected := (svc == nil || api.CheckSize(svc) != nil) && bound && pod.Namespace == owner.Namespace
	switch {
	case !granted && !selected && !mayBeSelected:
		return s.notPermitted(name, owner)
	case svc == nil && !s.OptedIn[owner.Namespace]:
		return wait(reasonNotOptedIn, "namespace %q does not have label %s=%s", owner.Namespace, api.LabelInject, api.InjectEnabled)
	case svc == nil:
		return wait(reasonNoService, "no Service %s requests a certificate", owner)
	}
	return s.problemOfName(name, svc)
}

// problemOfName returns why a Service that the requester may serve does not have the name.
func (s Situation) problemOfName(name string, svc *corev1.Service) Decision {
	if _, err := api.Parse(svc, s.Limits); err != nil {
		return refusedService(svc, err)
	}
	if err := s.crowdedOut(svc); err != nil {
		d := refusedService(svc, err)
		d.NextAt = s.Now.Add(crowdedRetry)
		return d
	}
	return deny(reasonInvalidName, "DNS name %q: Service %s does not permit it to this requester: a pod gets no wildcard, and below a headless Service only its own name", shown(name), keyOf(svc))
}

// refusedService returns a Wait until the invalid request of a Service is corrected.
func refusedService(svc *corev1.Service, err error) Decision {
	return wait(string(signer.RefusedReason(err)), "Service %s: %s", keyOf(svc), err)
}

// crowdedRetry is the interval at which a request is decided again while the Services that select
// the pod have too many names together. The request does not name these Services, so their changes
// do not trigger a decision.
const crowdedRetry = time.Minute

// crowdedOut returns why a Service is refused in combination with the others that select the
// pod, or nil.
func (s Situation) crowdedOut(svc *corev1.Service) error {
	if s.Pod == nil || s.Grants[keyOf(svc)] {
		return nil
	}
	for _, m := range s.members {
		if m.Service == svc {
			return m.Err
		}
	}
	return nil
}

func (s Situation) notPermitted(name string, owner types.NamespacedName) Decision {
	return deny(reasonNotPermitted, "name %q: user %q is not a pod that Service %s selects, and lacks verb %q on services.%s %q in namespace %q",
		shown(name), shown(s.Request.Username), owner, VerbServe, api.Domain, owner.Name, owner.Namespace)
}
