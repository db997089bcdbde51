package serving

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// SecretSituation is the input of a decision about the consumers of one Secret. The Services have a
// part in it. The Pods mount its key or mirror static pods.
type SecretSituation struct {
	Common
	// Secret is empty for Services without a part in a Secret that still have a condition Serving.
	Secret string
	// PodKeys are the observations of the Services' pods with their own keys.
	PodKeys Seen
}

// Decide decides which pods to dial, the Services' conditions, and which workloads are stale.
func (s SecretSituation) Decide() Decision {
	if s.Secret == "" {
		return s.release(certificate{})
	}
	cert := s.KeyState.certificate.follow(s.Services, s.Now)
	if cert.leaf == "" || s.Off {
		return s.release(cert)
	}
	next := KeyState{certificate: cert}
	if was := s.KeyState.certificate; cert.leaf == was.leaf && cert.since.Equal(was.since) {
		next.notified = slices.Clone(s.KeyState.notified)
	}
	reasons, after := doubts(s.Services, s.Pace, s.Now)
	v := s.view(&secret{SecretSituation: &s, certificate: cert, doubts: reasons}, next)
	if after > 0 {
		v.schedule.requeue(after)
	}
	v.decide()
	return v.d
}

// release removes the conditions if there is no certificate to serve, and marks them if pods are
// not dialled.
func (s SecretSituation) release(cert certificate) Decision {
	d := Decision{KeyState: KeyState{begun: s.KeyState.begun, certificate: cert}, Forget: len(s.Services) == 0}
	why := "no certificate is known, so that pods are not dialled"
	if cert.leaf != "" {
		why = notDialled
	}
	d.release(s.Services, why)
	for _, svc := range s.Services {
		switch {
		case api.Condition(svc, api.ConditionServing) == nil:
		case cert.leaf == "":
			d.Conditions = append(d.Conditions, ConditionUpdate{svc, nil})
		default:
			if want := notVerified(svc); want != nil {
				d.Conditions = append(d.Conditions, ConditionUpdate{svc, want})
			}
		}
	}
	return d
}

// secret is the subject of a SecretSituation.
type secret struct {
	*SecretSituation
	certificate
	// names and leaves are those of all targets, nil before the first.
	names, leaves []string
	// doubts are why it is not known what the Secret holds, for each of the Services; nil if it is.
	doubts []string
}

func (s *secret) key() pods.Key { return pods.SecretKey(s.Secret) }

func (s *secret) endpointOf(pod *pods.Facts) *endpoint {
	t := pod.Template.Value()
	if pod.HasPodKey() && slices.ContainsFunc(s.Services, func(svc *corev1.Service) bool { return api.Asks(svc) && api.Selects(svc, t.Pod()) }) {
		return &endpoint{} // see PodKeySituation
	}
	return endpointOf(t, s.Secret, s.Services)
}

func (s *secret) counts(*pods.Facts) bool { return true }

func (s *secret) complete(target *probe.Target, _ *endpoint) {
	if s.names == nil { // shared by all targets: there may be thousands
		s.names, s.leaves = hostnames(s.Services), s.known()
	}
	target.Names, target.Leaves = s.names, s.leaves
}

// reached records when the Secret's certificate became valid, and the delay of a pod that serves it
// for the first time after an earlier one.
func (s *secret) reached(c consumer, d *Decision) (leaf string, refreshAt time.Time) {
	for _, a := range c.answers {
		if a.Kind != probe.TLS || a.Leaf != s.leaf {
			continue
		}
		d.KeyState.certificate.notBefore = a.NotBefore
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
	all := seen.and(s.PodKeys)
	out := make([]statement, len(s.Services))
	for i, svc := range s.Services {
		out[i] = servingStatement(svc, s.Secret, all, s.certificate)
		if s.doubts != nil {
			out[i] = out[i].unless(s.doubts[i])
		}
		out[i] = out[i].unlessKeyless(s.Keyless[svc.UID])
	}
	return out
}
