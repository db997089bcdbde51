package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// see fills in what condition Serving reports, and whether that is about the Service as it is now.
func (s *Service) see(svc *corev1.Service) {
	if c := api.Condition(svc, api.ConditionServing); c != nil {
		s.Serving, s.outdated = c.Reason, !state.ServingIsOfNow(svc)
	}
}

// seen reports whether the rotator saw TLS at each port that should serve it.
func (s *Service) seen() bool { return s.Serving == api.ServingCurrent && !s.outdated }

// notSeen describes a condition Serving that is not evidence of TLS.
func (s *Service) notSeen() string {
	text := "condition " + api.ConditionServing + " is "
	switch {
	case s.Serving == "":
		return text + "missing"
	case s.outdated:
		return text + s.Serving + ", but about an earlier certificate or other ports"
	}
	return text + s.Serving
}

// compare compares what is known of a port with condition Serving. In a cluster, a port does not serve TLS for certain
// until the rotator has seen it. For manifests, there is no rotator.
func (b *Builder) compare(s *Service, port *Port) {
	switch {
	case port.Today == TodayTLS && s.Serving == api.ServingPlaintext:
		port.Today, port.By = TodayPlaintext, "condition "+api.ConditionServing+" reports plaintext"
	case b.opts.Endpoints == nil || s.seen():
	case port.Today == TodayTLS:
		port.unseen, port.Today, port.By = true, TodayDeclared, "its program gets the certificate, but "+s.notSeen()
	case port.Today == TodayProxy:
		port.unseen, port.Today, port.By = true, TodayDeclared, port.By+" should serve it, but "+s.notSeen()
	case port.Today == TodayAny:
		port.unseen = true
	}
}

// Unseen reports whether a port has all that it needs to serve TLS, but the rotator has not seen it serve TLS.
func (s *Service) Unseen() bool {
	for _, p := range s.Ports {
		if p.unseen {
			return true
		}
	}
	return false
}
