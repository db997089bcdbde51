package choose

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
)

// serviceNotes returns what the owner of the pod should know about the Services that
// select it.
func serviceNotes(pod *corev1.Pod, all []*corev1.Service, selecting []asker, c Choice) []reasons.Note {
	var notes []reasons.Note
	if c.NotServing {
		notes = append(notes, reasons.Note{Reason: reasons.NotServing, Detail: unreached(pod, selecting[0].Service)})
	}
	other := slices.IndexFunc(selecting, func(s asker) bool { return s.from != c.origin() })
	if c.By == ByService && c.PodKey == nil && other >= 0 { // the certificate of a pod key has all names
		notes = append(notes, reasons.Note{Reason: reasons.SeveralServices, Detail: whyPreferred(selecting[0].Service, selecting[other].Service)})
	}
	if detail := proxiesNotAsked(pod, all); detail != "" {
		notes = append(notes, reasons.Note{Reason: reasons.ProxyNotAsked, Detail: detail})
	}
	examined, tooLarge := 0, 0
	for _, s := range all {
		if err := api.CheckSize(s); err != nil && api.Asks(s) && c.By != ByPod {
			if tooLarge++; tooLarge == 1 { // it may have selected the pod
				notes = append(notes, reasons.Note{Reason: reasons.ServiceTooLarge, Detail: "Service " + s.Name + ": " + err.Error()})
			}
			continue
		}
		if !api.Asks(s) || !api.Selects(s, pod) {
			continue
		}
		from := originOf(s)
		impossible := from == (origin{})
		if !impossible && from != c.origin() {
			continue
		}
		if examined++; examined > maxExamined {
			break
		}
		detail := refusal(s)
		switch {
		case impossible:
			notes = append(notes, reasons.Note{Reason: reasons.ImpossibleSecret, Detail: "Service " + s.Name + ": " + detail})
		case detail != "":
			notes = append(notes, reasons.Note{Reason: reasons.ServiceRefused, Detail: "Service " + s.Name + ": " + detail})
		}
	}
	return notes
}

// proxiesNotAsked returns the ports, of the Services that select the pod, that look like requests
// for a proxy but are not; "" if there are none.
func proxiesNotAsked(pod *corev1.Pod, services []*corev1.Service) string {
	declared := func(name string) bool { return sidecar.Declares(pod, name) }
	var said []string
	for _, s := range services {
		for _, p := range s.Spec.Ports {
			if api.CheckProxyPort(s, p, declared) == nil || !api.Selects(s, pod) || len(said) == maxNotAsked {
				continue
			}
			detail := "Service " + s.Name + ": " + p.TargetPort.StrVal
			if !api.Asks(s) {
				detail = "Service " + s.Name + ", which requests no certificate: " + p.TargetPort.StrVal
			}
			said = append(said, detail)
		}
	}
	return strings.Join(said, "; ")
}

// maxNotAsked is how many such ports are named.
const maxNotAsked = 3

// maxExamined bounds how many of the Services that select a pod are examined for being refused by
// the signer, which is only noted.
const maxExamined = 32

// unreached describes the target ports of the Service that the pod lacks.
func unreached(pod *corev1.Pod, svc *corev1.Service) string {
	targets := api.TLSTargets(svc)
	if len(targets) == 0 {
		return "Service " + svc.Name + " has no TCP port"
	}
	ports := make([]string, len(targets))
	for i, t := range targets {
		ports[i] = t.String()
		if p, asks := api.ParseProxyPort(ports[i]); asks {
			ports[i] += ", a proxy for port " + p.Upstream
		}
	}
	detail := "Service " + svc.Name + ": targetPort " + reasons.List(ports)
	if api.OneShot(pod) {
		return detail + ", pod of a Job or Helm hook"
	}
	return detail
}

// refusal returns why the signer issues no certificate for the Service, as far as the
// webhook can know, or "": no signer allows the request, or the Ready condition is False.
// If that condition's state has a leaf, there is a certificate, which only lacks some
// names yet.
func refusal(svc *corev1.Service) string {
	if _, err := api.Parse(svc, widestLimits(svc)); err != nil {
		return err.Error()
	}
	_, hasLeaf := state.LeafOf(svc)
	if cond := api.Condition(svc, api.ConditionReady); cond != nil && cond.Status == metav1.ConditionFalse && !hasLeaf {
		return cond.Reason + ": " + cond.Message
	}
	return ""
}

// widestLimits returns limits that allow everything that any signer might allow the Service:
// its extra names, any duration, cluster IPs, any key algorithm.
func widestLimits(svc *corev1.Service) api.Limits {
	limits := api.DefaultLimits()
	limits.MinDuration, limits.MaxDuration, limits.PermitClusterIPs = time.Second, math.MaxInt64, true
	limits.PermitRSA4096 = true
	extra, err := api.ExtraNames(svc)
	if err != nil {
		return limits // every signer refuses the annotation
	}
	limits.PermitDNSSuffixes = api.PermitAll(extra)
	return limits
}
