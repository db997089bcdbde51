package serving

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// SecretSituation is what a decision about the consumers of one Secret is made from. The
// Services have a part in it, and the Pods mount its key or mirror static pods.
type SecretSituation struct {
	Common
	// Secret is empty for the Services that have a part in no Secret and still have
	// a condition Serving.
	Secret string
	// PodKeys are the pods of the Services that have keys of their own.
	PodKeys Seen
}

// Decide says which pods to dial, what the Services' conditions are to be, and
// what is stale.
func (s SecretSituation) Decide() Decision {
	if s.Secret == "" {
		return s.release(certificate{})
	}
	cert := s.Memory.certificate.follow(s.Services, s.Now)
	if cert.leaf == "" || s.Off {
		return s.release(cert)
	}
	memory := Memory{certificate: cert}
	if cert.leaf == s.Memory.certificate.leaf {
		memory.notified = slices.Clone(s.Memory.notified)
	}
	v := s.view(&secret{SecretSituation: &s, certificate: cert}, memory)
	v.decide()
	return v.d
}

// release takes the conditions back where there is no certificate to be served,
// and marks them where nobody dials.
func (s SecretSituation) release(cert certificate) Decision {
	d := Decision{Memory: Memory{begun: s.Memory.begun, certificate: cert}, Forget: len(s.Services) == 0}
	for _, svc := range s.Services {
		switch {
		case api.Condition(svc, api.ConditionServing) == nil:
		case cert.leaf == "":
			d.Conditions = append(d.Conditions, Change{svc, nil})
		default:
			if want := notVerified(svc); want != nil {
				d.Conditions = append(d.Conditions, Change{svc, want})
			}
		}
	}
	return d
}

// secret is the subject of a SecretSituation.
type secret struct {
	*SecretSituation
	certificate
	// names and leaves are those of all visits, nil before the first.
	names, leaves []string
}

func (s *secret) key() pods.Key { return pods.SecretKey(s.Secret) }

func (s *secret) endpointOf(pod *pods.Facts) *endpoint {
	t := pod.Template.Value()
	if pod.HasPodKey() && slices.ContainsFunc(s.Services, func(svc *corev1.Service) bool { return api.Asks(svc) && api.Selects(svc, t.Pod()) }) {
		return &endpoint{} // it is judged with the others that have keys of their own
	}
	return endpointOf(t, s.Secret, s.Services)
}

func (s *secret) counts(*pods.Facts) bool { return true }

func (s *secret) ask(visit *probe.Visit, _ *endpoint) {
	if s.names == nil { // thousands of pods may wait to be dialled for the Secret
		s.names, s.leaves = hostnames(s.Services), s.known()
	}
	visit.Names, visit.Leaves = s.names, s.leaves
}

// reached notes when the Secret's certificate became valid. A pod that is seen to serve it
// for the first time says how long it took, if it was seen to serve an earlier one before.
func (s *secret) reached(c consumer, d *Decision) (leaf string, refreshAt time.Time) {
	for _, a := range c.answers {
		if a.Kind != probe.TLS || a.Leaf != s.leaf {
			continue
		}
		d.Memory.certificate.notBefore = a.NotBefore
		if c.reached != "" && c.reached != s.leaf {
			d.Arrivals = append(d.Arrivals, max(0, a.At.Sub(s.since)))
		}
		return s.leaf, time.Time{}
	}
	return c.reached, time.Time{}
}

func (s *secret) describe(w *StaleWorkload, _ consumer) {
	w.Leaf, w.Service, w.ServiceUID = s.leaf, s.Services[0].Name, s.Services[0].UID
}

func (s *secret) statements(seen Seen) []statement {
	all := slices.Concat(seen.groups, s.PodKeys.groups)
	out := make([]statement, len(s.Services))
	for i, svc := range s.Services {
		out[i] = servingStatement(svc, s.Secret, all, s.certificate)
	}
	return out
}
