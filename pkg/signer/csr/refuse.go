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

// refuse returns why the requester does not get the missing names: Deny if one of them can
// never be right, otherwise Wait.
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

// problem returns why the requester does not get a DNS name.
func (s Situation) problem(name string) Decision {
	owner, ok := serviceindex.ServiceOf(name, s.Limits)
	if ok {
		return s.problemOfService(name, owner)
	}
	if !mayBePermitted(name, s.Limits) {
		return deny(reasonInvalidName, "DNS name %q: no Service may have it: it is neither below SVC.NAMESPACE.svc nor below a suffix that the signer permits", shown(name))
	}
	return s.problemOfHolders(name, s.Holders[name])
}

// problemOfIP returns why the requester does not get an IP address.
func (s Situation) problemOfIP(ip netip.Addr) Decision {
	if !s.Limits.PermitClusterIPs {
		return deny(reasonInvalidName, "IP address %s: not permitted: the signer was started without --permit-cluster-ips, and its CA excludes all IP addresses", ip)
	}
	return s.problemOfHolders(ip.String(), s.Holders[serviceindex.NameOf(ip)])
}

// problemOfHolders returns why the requester does not get a name that these Services
// have, and that does not say of which Service it is. It names none of them: they may be
// in namespaces of which the requester knows nothing.
func (s Situation) problemOfHolders(name string, holders []types.NamespacedName) Decision {
	if len(holders) == 0 {
		return wait(reasonNoService, "no Service of a namespace that is opted in asks for %q", shown(name))
	}
	return deny(reasonNotPermitted, "name %q: user %q is no pod that a Service with this name selects, and may not %q on services.%s for such a Service",
		shown(name), shown(s.Request.Username), VerbServe, api.Domain)
}

// problemOfService returns why the requester does not get a name in the domains of the
// Service.
func (s Situation) problemOfService(name string, owner types.NamespacedName) Decision {
	pod, bound := s.Request.Pod()
	svc, granted := s.service(owner), s.Grants[owner]
	selected := svc != nil && bound && pod.Namespace == owner.Namespace && api.Selects(svc, s.Pod)
	// It is not known what a Service that is too large selects.
	mayBeSelected := (svc == nil || api.CheckSize(svc) != nil) && bound && pod.Namespace == owner.Namespace
	switch {
	case !granted && !selected && !mayBeSelected:
		return s.notPermitted(name, owner)
	case svc == nil && !s.OptedIn[owner.Namespace]:
		return wait(reasonNotOptedIn, "namespace %q does not have label %s=%s", owner.Namespace, api.LabelInject, api.InjectEnabled)
	case svc == nil:
		return wait(reasonNoService, "there is no Service %s that asks for a certificate", owner)
	}
	return s.problemOfName(name, svc)
}

// problemOfName returns why a name is not among those of a Service that the requester may
// serve.
func (s Situation) problemOfName(name string, svc *corev1.Service) Decision {
	if _, err := api.Parse(svc, s.Limits); err != nil {
		return refusedService(svc, err)
	}
	if err := s.crowdedOut(svc); err != nil {
		d := refusedService(svc, err)
		d.NextAt = s.Now.Add(crowdedRetry)
		return d
	}
	return deny(reasonInvalidName, "DNS name %q: Service %s does not give it to this requester; a pod has no wildcard, and below a headless Service its own name only", shown(name), keyOf(svc))
}

// refusedService waits for a Service that asks for what it may not have.
func refusedService(svc *corev1.Service, err error) Decision {
	return wait(string(signer.RefusedReason(err)), "Service %s: %s", keyOf(svc), err)
}

// crowdedRetry is how long a request waits before it is looked at again because other Services
// that select the pod have too many names. It does not name these, so their changes are not
// among those that it is looked at for.
const crowdedRetry = time.Minute

// crowdedOut returns what is wrong with what a Service asks for together with the others that
// select the pod, or nil.
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
	return deny(reasonNotPermitted, "name %q: user %q is no pod that Service %s selects, and may not %q on services.%s %q in namespace %q",
		shown(name), shown(s.Request.Username), owner, VerbServe, api.Domain, owner.Name, owner.Namespace)
}
