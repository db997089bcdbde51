package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// see fills in what condition Serving reports, and whether that is about the Service as it is now.
func (b *Builder) see(s *Service, svc *corev1.Service) {
	if c := api.Condition(svc, api.ConditionServing); c != nil {
		s.Serving, s.outdated, s.noRotator = c.Reason, !state.ServingIsOfNow(svc), b.opts.NoRotator
	}
	for _, need := range api.Needs(svc) {
		if len(need.Targets) == 1 { // of several, the rotator has to see only one
			s.dialled = append(s.dialled, need.Targets[0].Target)
		}
	}
}

// notCurrent returns why condition Serving is not evidence of TLS at any port; "" if it is.
func (s *Service) notCurrent() string {
	text := "condition " + api.ConditionServing + " is "
	switch {
	case s.Serving == "":
		return text + "missing"
	case s.outdated:
		return text + s.Serving + ", but about an earlier certificate or other ports"
	case s.Serving != api.ServingCurrent:
		return text + s.Serving
	case s.noRotator != "":
		return text + s.Serving + ", but nothing updates it: " + s.noRotator
	}
	return ""
}

// notSeen returns why condition Serving is not evidence of TLS at the target port; "" if it is.
func (s *Service) notSeen(target intstr.IntOrString) string {
	why := s.notCurrent()
	if why == "" && !slices.Contains(s.dialled, target) {
		why = "condition " + api.ConditionServing + " is " + s.Serving + ", but not about this port: name it https, or list it in annotation " + api.AnnotationProbe + ", and the rotator dials it"
	}
	return why
}

// compare compares what is known of a port with condition Serving. In a cluster, a port does not serve TLS for certain
// until the rotator has seen it. For manifests, there is no rotator.
func (b *Builder) compare(s *Service, port *Port, target intstr.IntOrString) {
	why := s.notSeen(target)
	switch {
	case port.Today == TodayTLS && s.Serving == api.ServingPlaintext:
		port.Today, port.By = TodayPlaintext, "condition "+api.ConditionServing+" reports plaintext"
	case !b.opts.Live:
	case why == "" && port.Today == TodayDeclared:
		port.Today, port.By = TodayTLS, "condition "+api.ConditionServing+" is "+s.Serving
	case why == "":
	case port.Today == TodayTLS:
		port.unseen, port.Today, port.By = true, TodayDeclared, "its program gets the certificate, but "+why
	case port.Today == TodayProxy:
		port.unseen, port.Today, port.By = true, TodayDeclared, port.By+" should serve it, but "+why
	case port.Today == TodayAny, port.Today == TodayDeclared:
		port.unseen = true
	}
}

// Unseen reports whether the Service requests a certificate, and the rotator has not seen it serve TLS, although a port has
// all that it needs or no step is known that helps.
func (s *Service) Unseen() bool {
	if !s.asks {
		return false
	}
	return (s.Way == WayCheck || s.Way == WayNone) && s.notCurrent() != "" || slices.ContainsFunc(s.Ports, func(p Port) bool { return p.unseen })
}
