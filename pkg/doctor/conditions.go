package doctor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// reasonClockSkew is the reason of condition Ready of a signer whose clock is wrong.
const reasonClockSkew = "ClockSkew"

// conditions returns what the signer and the rotator report of a Service that asks for a
// certificate in an opted-in namespace.
func conditions(svc *corev1.Service, object string) []Finding {
	var out []Finding
	switch ready := api.Condition(svc, api.ConditionReady); {
	case ready == nil:
		out = append(out, found(NotReady, object, "it has no condition %s: the signer has not seen it yet, or does not run", api.ConditionReady).
			do("If that does not change within seconds, see the signer's Deployment and Lease."))
	case ready.Status == metav1.ConditionTrue:
	case ready.Reason == reasonClockSkew:
		out = append(out, found(SignerClock, object, "%s", ready.Message))
	case ready.Reason == api.ReasonWaitingForTrust:
		out = append(out, found(NotReady, object, "%s: %s", ready.Reason, ready.Message).as(Warning))
	default:
		out = append(out, found(NotReady, object, "%s: %s", ready.Reason, ready.Message))
	}
	if ready := api.Condition(svc, api.ConditionReady); ready != nil && ready.Status == metav1.ConditionTrue {
		out = append(out, serving(svc, object)...)
	}
	return out
}

// serving returns what the rotator reports of what the Service's pods serve. Nothing is found if it
// has seen each TLS port of the Service served, and not if it has seen nothing.
func serving(svc *corev1.Service, object string) []Finding {
	c := api.Condition(svc, api.ConditionServing)
	switch {
	case c == nil:
		return []Finding{found(NotServed, object, "it has no condition %s: the rotator has not looked at its pods yet, or does not run", api.ConditionServing).
			do("If that does not change within a minute, see the rotator's Deployment and Lease.")}
	case !state.ServingIsOfNow(svc):
		return []Finding{found(NotServed, object, "condition %s is about an earlier certificate, or other ports: the rotator has not looked since", api.ConditionServing).
			as(Info).do("If that does not change within a minute, see the rotator's Deployment and Lease.")}
	case c.Status == metav1.ConditionTrue:
		return nil
	case c.Reason == api.ServingNoConsumers:
		return []Finding{found(NoConsumers, object, "%s", c.Message)}
	case c.Reason == api.ServingStale:
		return []Finding{byProxy(svc, found(Stale, object, "%s", c.Message))}
	}
	f := byProxy(svc, found(NotServed, object, "%s: %s", c.Reason, c.Message))
	if c.Status == metav1.ConditionUnknown || c.Reason == api.ServingPropagating {
		f = f.as(Info)
	}
	if c.Reason == api.ServingNoPort {
		f = f.do("%s", CheckOf(TLSPorts).Fix)
	}
	return []Finding{f}
}

// byProxy adds to what is wrong with a Service's TLS that the proxy in its pods serves it. If
// all of it, the program has no part in it, and the fix is another one.
func byProxy(svc *corev1.Service, f Finding) Finding {
	names := api.ProxyTargets(svc)
	if len(names) == 0 {
		return f
	}
	f.Message += fmt.Sprintf("; TLS at targetPort %s is served by the proxy in its pods", strings.Join(names, ", "))
	if len(names) < len(api.TLSTargets(svc)) {
		return f
	}
	return f.do("See what the proxy says: kubectl logs POD -n %s -c %s.", svc.Namespace, api.ProxyContainer)
}
