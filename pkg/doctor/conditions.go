package doctor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// reasonClockSkew is the reason of condition Ready of a signer whose clock is wrong.
const reasonClockSkew = "ClockSkew"

// conditions returns what the signer and the rotator report of a Service that asks for a
// certificate in an opted-in namespace.
func (n Namespace) conditions(svc *corev1.Service, object string) []Finding {
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
		out = append(out, n.serving(svc, object)...)
	}
	return out
}

// serving returns what the rotator reports of what the Service's pods serve. Nothing is found if it
// has seen each TLS port of the Service served, and not if it has seen nothing.
func (n Namespace) serving(svc *corev1.Service, object string) []Finding {
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
		return []Finding{found(NoConsumers, object, "%s%s", c.Message, n.whyNone(svc))}
	case c.Reason == api.ServingStale:
		f := found(Stale, object, "%s", c.Message)
		if how := n.reloads(svc); how != "" {
			f = f.do("%s", how)
		}
		return []Finding{byProxy(svc, f)}
	}
	f := byProxy(svc, found(NotServed, object, "%s: %s", c.Reason, c.Message))
	switch {
	case c.Reason == api.ServingPropagating:
		f = f.as(Info).do("Wait for two minutes: the new certificate is on its way.")
	case c.Status == metav1.ConditionUnknown:
		f = f.do("See whether the rotator may connect to the port: NetworkPolicies, and what the program answers there.")
	}
	if c.Reason == api.ServingNoPort {
		f = f.do("%s", CheckOf(TLSPorts).Fix)
	}
	return []Finding{f}
}

// Noted is what the webhook noted on pods, in annotation servingcert.dev/status, that it gave no
// certificate.
type Noted struct {
	Object string // KIND NAME of their workload
	Labels map[string]string
	Notes  []string
}

const (
	maxNoted = 3   // how many workloads are quoted
	maxNote  = 300 // how many characters of what each says
)

// whyNone returns why the pods of the Service have no certificate, as far as the webhook noted it
// on them, or their Deployment cannot make them; "" if neither.
func (n Namespace) whyNone(svc *corev1.Service) string {
	var why []string
	for _, noted := range n.Noted {
		if n.selects(svc, noted.Labels) {
			why = append(why, fmt.Sprintf("the webhook noted on pods of %s: %q", noted.Object, api.Shorten(strings.Join(noted.Notes, "; "), maxNote)))
		}
	}
	for _, w := range n.Workloads {
		if w.Failure != "" && n.selects(svc, w.Template.Labels) {
			why = append(why, fmt.Sprintf("%s %s makes no pods: %q", w.Kind, w.Name, api.Shorten(w.Failure, maxNote)))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return "; " + api.ListedTexts(why, maxNoted)
}

// reloads says how programs of the Service's pods take up a new certificate without being started again, as the
// table of programs has it; "" if none is known that has to be told.
func (n Namespace) reloads(svc *corev1.Service) string {
	table := programs.Builtin()
	for _, w := range n.Workloads {
		if !n.selects(svc, w.Template.Labels) {
			continue
		}
		for _, c := range w.Template.Spec.Containers {
			p := table.Of(&c, func([]int32) bool { return false })
			if p != nil && (p.Reload == programs.ReloadSignal || p.Reload == programs.ReloadRequest) {
				return fmt.Sprintf("Have %s in %s %s read its files again: %s. Or let it be restarted: %s: %s on the pod template.", p.Name, w.Kind, w.Name, p.ReloadHow, api.AnnotationOnRotate, api.OnRotateRestart)
			}
		}
	}
	return ""
}

// byProxy adds to what is wrong with a Service's TLS that the proxy in its pods serves it. If
// all of it, the program has no part in it, and the fix is another one.
func byProxy(svc *corev1.Service, f Finding) Finding {
	names := api.ProxyTargets(svc)
	if len(names) == 0 {
		return f
	}
	f.Message += fmt.Sprintf("; TLS at targetPort %s is asked of the proxy in its pods", strings.Join(names, ", "))
	if len(names) < len(api.TLSTargets(svc)) {
		return f
	}
	return f.do("See what the proxy says: %s.", api.CommandText([]string{svc.Namespace}, "kubectl", "logs", "POD", "-n", svc.Namespace, "-c", api.ProxyContainer))
}
