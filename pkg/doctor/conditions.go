package doctor

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// conditions returns the findings from the conditions of a Service that requests a
// certificate in an opted-in namespace.
func (n Namespace) conditions(svc *corev1.Service, object string) []Finding {
	var out []Finding
	switch ready := api.Condition(svc, api.ConditionReady); {
	case ready == nil:
		out = append(out, found(NotReady, object, "it has no condition %s: the signer has not processed it yet, or is not running", api.ConditionReady).
			do("If this does not change within seconds, check the signer's Deployment and Lease."))
	case ready.Reason == api.ReasonRenewalOverdue:
		out = append(out, found(NotReady, object, "%s: %s", ready.Reason, ready.Message).as(Warning).do("Have the issuer of its Secret renew it: servingcert never writes its data."))
	case ready.Status == metav1.ConditionTrue && state.ReadyOf(svc).Unverified:
		out = append(out, found(NotReady, object, "%s: %s", ready.Reason, ready.Message).as(Warning).
			do("Have its issuer write the whole chain into %s, and the root into %s: pods get both.", corev1.TLSCertKey, api.BundleKey))
	case ready.Status == metav1.ConditionTrue:
	case ready.Reason == api.ReasonClockSkew:
		out = append(out, found(SignerClock, object, "%s", ready.Message))
	case ready.Reason == api.ReasonWaitingForTrust:
		out = append(out, found(NotReady, object, "%s: %s", ready.Reason, ready.Message).as(Warning))
	default:
		out = append(out, found(NotReady, object, "%s: %s", ready.Reason, ready.Message))
	}
	if ready := api.Condition(svc, api.ConditionReady); ready != nil && ready.Status == metav1.ConditionTrue {
		out = append(out, podsFail(svc, n.serving(svc, object))...)
	}
	return append(out, n.guarded(svc, object)...)
}

// serving returns the findings from condition Serving. There is none only if the rotator has seen the
// certificate at each TLS port of the Service.
func (n Namespace) serving(svc *corev1.Service, object string) []Finding {
	c := api.Condition(svc, api.ConditionServing)
	switch {
	case c == nil:
		return []Finding{found(NotServed, object, "it has no condition %s: the rotator has not probed its pods yet, or is not running", api.ConditionServing).
			do("If this does not change within a minute, check the rotator's Deployment and Lease.")}
	case !state.ServingIsOfNow(svc):
		return []Finding{n.outdated(svc, found(NotServed, object, "condition %s is about an earlier certificate or other ports: the rotator has not probed the pods since", api.ConditionServing))}
	case c.Status == metav1.ConditionTrue:
		return nil
	case c.Reason == api.ServingNoConsumers:
		return []Finding{found(NoConsumers, object, "%s%s", c.Message, n.noConsumersCause(svc))}
	case c.Reason == api.ServingNotMounted:
		f := found(NotServed, object, "%s: %s%s", c.Reason, c.Message, n.noConsumersCause(svc))
		return []Finding{f.do("Restart the workloads. If new pods do not mount it either, read their annotation %s.", api.AnnotationStatus)}
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
		f = f.as(Info).do("Wait for two minutes: the new certificate has not reached all pods yet.")
	case c.Status == metav1.ConditionUnknown:
		f = f.do("Check whether the rotator can connect to the port (NetworkPolicies), and what the program answers there.")
	}
	if c.Reason == api.ServingNoPort {
		f = f.do("%s", CheckOf(TLSPorts).Fix)
	}
	return []Finding{f}
}

// guarded returns the findings from condition Guarded of a Service that lists its clients. There is none only if the rotator
// has seen its pods refuse others, or the list has watch, which is meant to admit them.
func (n Namespace) guarded(svc *corev1.Service, object string) []Finding {
	c, ready := api.Condition(svc, api.ConditionGuarded), api.Condition(svc, api.ConditionReady)
	switch {
	case !api.Guards(svc):
		return nil
	case c == nil && (ready == nil || ready.Status != metav1.ConditionTrue): // which is a finding, and the cause
		return nil
	case c == nil:
		return []Finding{found(NotServed, object, "it has no condition %s: the rotator has not seen yet whether its pods refuse clients that it does not list", api.ConditionGuarded).
			do("If this does not change within a minute, check the rotator's Deployment and Lease.")}
	case !state.GuardedIsOfNow(svc):
		return []Finding{n.outdated(svc, found(NotServed, object, "condition %s is about another list, selector or ports: the rotator has not dialled the pods since", api.ConditionGuarded))}
	case c.Status == metav1.ConditionTrue, c.Reason == api.GuardedWatch:
		return nil
	}
	f := found(NotServed, object, "condition %s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message).do("Do what the message says.")
	switch {
	case c.Reason == api.GuardedAdmits, c.Reason == api.GuardedNoList:
		f = f.as(Error)
	case c.Reason == api.GuardedPending:
		f = f.as(Info).do("Wait for two minutes: not each pod has been dialled.")
	case c.Status == metav1.ConditionUnknown:
		f = f.do("Check whether the rotator can connect to the port (NetworkPolicies), and what the program answers there.")
	}
	return []Finding{f}
}

// outdated returns the finding about a condition that is of an earlier time: the rotator may be about to write it.
func (n Namespace) outdated(svc *corev1.Service, f Finding) Finding {
	if n.now.Sub(changed(svc)) <= probeTime {
		return f.as(Info).do("If this does not change within two minutes, check the rotator's Deployment and Lease.")
	}
	return f.do("Check the rotator's Deployment and Lease.")
}

// probeTime is how long the rotator may take to probe the pods after a change of the Service or its certificate.
const probeTime = 2 * time.Minute

// changed returns when the Service or its certificate last changed in a way that the rotator probes the pods for, by the
// API server's record of writes; zero if that is unknown.
func changed(svc *corev1.Service) (last time.Time) {
	for _, w := range svc.ManagedFields {
		if w.Time == nil || w.FieldsV1 == nil || !w.Time.After(last) {
			continue
		}
		fields := w.FieldsV1.GetRawString()
		for _, probed := range []string{`"f:spec"`, `"f:` + api.Domain + `/`, api.ConditionReady} {
			if strings.Contains(fields, probed) {
				last = w.Time.Time
			}
		}
	}
	return last
}

// podsFail adds the cause to the findings about a Service whose pods serve nothing, if the rotator reports that they
// fail after their injection.
func podsFail(svc *corev1.Service, findings []Finding) []Finding {
	c := api.Condition(svc, api.ConditionPodsHealthy)
	if c == nil || c.Status != metav1.ConditionFalse {
		return findings
	}
	for i := range findings {
		findings[i].Message += fmt.Sprintf("; condition %s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
		findings[i] = findings[i].do("Correct what the condition names: the pods fail after their injection, and new ones will too.")
	}
	return findings
}

// Noted is the notes that the webhook wrote into annotation servingcert.dev/status of pods without a
// certificate.
type Noted struct {
	Object string // KIND NAME of their workload
	Labels map[string]string
	Notes  []string
}

const (
	maxNoted = 3   // workloads that are quoted
	maxNote  = 300 // characters that are quoted of each
)

// noConsumersCause returns why the pods of the Service have no certificate, from the webhook's notes on
// them or the failures of their Deployments; "" if there are neither.
func (n Namespace) noConsumersCause(svc *corev1.Service) string {
	var why []string
	for _, noted := range n.Noted {
		if n.selects(svc, noted.Labels) {
			why = append(why, fmt.Sprintf("the webhook noted on pods of %s: %q", noted.Object, api.Shorten(strings.Join(noted.Notes, "; "), maxNote)))
		}
	}
	for _, w := range n.Workloads {
		if w.Failure != "" && n.selects(svc, w.Template.Labels) {
			why = append(why, fmt.Sprintf("%s %s creates no pods: %q", w.Kind, w.Name, api.Shorten(w.Failure, maxNote)))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return "; " + api.ListedTexts(why, maxNoted)
}

// reloads returns how a program in the Service's pods is made to reload its certificate, from the table of
// programs; "" if none is known to need a signal or a request.
func (n Namespace) reloads(svc *corev1.Service) string {
	table := programs.Builtin()
	for _, w := range n.Workloads {
		if !n.selects(svc, w.Template.Labels) {
			continue
		}
		for _, c := range w.Template.Spec.Containers {
			p := table.Of(&c, func([]int32) bool { return false })
			if p != nil && (p.Reload == programs.ReloadSignal || p.Reload == programs.ReloadRequest) {
				return fmt.Sprintf("Make %s in %s %s reload its files: %s. Or set %s: %s on the pod template to have it restarted.", p.Name, w.Kind, w.Name, p.ReloadHow, api.AnnotationOnRotate, api.OnRotateRestart)
			}
		}
	}
	return ""
}

// byProxy adds to a finding about a Service's TLS that the proxy in its pods terminates it. If the
// proxy terminates it at all TLS ports, the fix is about the proxy instead of the program.
func byProxy(svc *corev1.Service, f Finding) Finding {
	names := api.ProxyTargets(svc)
	if len(names) == 0 {
		return f
	}
	f.Message += fmt.Sprintf("; the proxy in its pods terminates TLS at targetPort %s", strings.Join(names, ", "))
	if len(names) < len(api.TLSTargets(svc)) {
		return f
	}
	return f.do("Read the proxy's log: %s.", api.CommandText([]string{svc.Namespace}, "kubectl", "logs", "POD", "-n", svc.Namespace, "-c", api.ProxyContainer))
}
