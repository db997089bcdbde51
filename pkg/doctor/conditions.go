package doctor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
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
	serving := api.Condition(svc, api.ConditionServing)
	if serving == nil || serving.Status == metav1.ConditionTrue {
		return out
	}
	switch serving.Reason {
	case api.ServingNoConsumers:
		out = append(out, found(NoConsumers, object, "%s", serving.Message))
	case api.ServingStale:
		out = append(out, byProxy(svc, found(Stale, object, "%s", serving.Message)))
	case api.ServingForeign, api.ServingPlaintext:
		out = append(out, byProxy(svc, found(NotServed, object, "%s: %s", serving.Reason, serving.Message)))
	case api.ServingUnreachable, api.ServingNoPort, api.ServingNotVerified:
		out = append(out, byProxy(svc, found(NotServed, object, "%s: %s", serving.Reason, serving.Message)).as(Info))
	}
	return out
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
