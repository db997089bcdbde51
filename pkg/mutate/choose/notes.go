package choose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// serviceNotes returns what the owner of the pod should know about the Services that
// select it.
func serviceNotes(pod *corev1.Pod, reach api.Reach, services, selecting []service, c Choice) []reasons.Note {
	var notes []reasons.Note
	if c.NotServing {
		notes = append(notes, reasons.Note{Reason: reasons.NotServing, Detail: unreached(pod, selecting[0])})
	}
	other := slices.IndexFunc(selecting, func(s service) bool { return s.from != c.origin() })
	if c.By == ByService && c.PodKey == nil && other >= 0 { // the certificate of a pod key has all names
		notes = append(notes, reasons.Note{Reason: reasons.SeveralServices, Detail: whyPreferred(selecting[0], selecting[other])})
	}
	if detail := proxiesNotAsked(reach, services); detail != "" {
		notes = append(notes, reasons.Note{Reason: reasons.ProxyNotAsked, Detail: detail})
	}
	examined, tooLarge := 0, 0
	for _, s := range services {
		if s.tooLarge != nil && c.By != ByPod {
			if tooLarge++; tooLarge == 1 { // it may have selected the pod
				notes = append(notes, reasons.Note{Reason: reasons.ServiceTooLarge, Detail: "Service " + s.Name + ": " + s.tooLarge.Error()})
			}
		}
		impossible := s.from == (origin{})
		if !s.asks || !s.selects || !impossible && s.from != c.origin() {
			continue
		}
		if examined++; examined > maxExamined {
			break
		}
		detail := refusal(s.Service)
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
func proxiesNotAsked(reach api.Reach, services []service) string {
	declared := func(name string) bool { return reach.Declares(intstr.FromString(name)) }
	var said []string
	for _, s := range services {
		if !s.selects {
			continue
		}
		for _, p := range s.Spec.Ports {
			if api.CheckProxyPort(s.Service, p, declared) == nil || len(said) == maxNotAsked {
				continue
			}
			detail := "Service " + s.Name + ": " + p.TargetPort.StrVal
			if !s.asks {
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
func unreached(pod *corev1.Pod, s service) string {
	if len(s.targets) == 0 {
		return "Service " + s.Name + " has no TCP port"
	}
	ports := make([]string, len(s.targets))
	for i, t := range s.targets {
		ports[i] = t.String()
		if p, asks := api.ParseProxyPort(ports[i]); asks {
			ports[i] += ", a proxy for port " + p.Upstream
		}
	}
	detail := "Service " + s.Name + ": targetPort " + reasons.List(ports)
	if api.OneShot(pod) {
		return detail + ", pod of a Job or Helm hook"
	}
	return detail
}

// refusal returns why the signer issues no certificate for the Service, as far as the
// webhook can know, or "": no signer allows the request, or the Ready condition is False.
// If that condition's state has a leaf, there is a certificate, which only lacks some
// names yet, unless the request is not allowed.
func refusal(svc *corev1.Service) string {
	if _, err := api.Parse(svc, api.WidestLimits()); err != nil {
		return err.Error()
	}
	_, hasLeaf := state.LeafOf(svc)
	if cond := api.Condition(svc, api.ConditionReady); cond != nil && cond.Status == metav1.ConditionFalse && (!hasLeaf || cond.Reason == api.ReasonInvalid) {
		return cond.Reason + ": " + cond.Message
	}
	return ""
}
