package serving

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// kubeletLate is how long after the moment that it was asked to a kubelet begins to replace
// a certificate whose key it made, at most.
const kubeletLate = 5 * time.Minute

// isPodKeys reports whether the decision is about the pods of a namespace that have keys of
// their own, and not about a Secret.
func (s Situation) isPodKeys() bool { return s.Secret == pods.PodKey }

// hasPodKey reports whether the kubelet made a key for the pod.
func hasPodKey(pod *pods.Facts) bool { return slices.Contains(pod.Mounts(), pods.PodKey) }

// isCountedElsewhere reports whether the pod is counted with a Secret, in which another
// Service has a part than those that keep it from before.
func (s Situation) isCountedElsewhere(pod *pods.Facts) bool {
	shared := func(secret string) bool { return s.Shared[secret] }
	return s.isPodKeys() && !hasPodKey(pod) && slices.ContainsFunc(pod.Mounts(), shared)
}

// decidePodKeys is Decide for the pods of a namespace that have keys of their own.
func (s Situation) decidePodKeys() Decision {
	switch {
	case !slices.ContainsFunc(s.Services, api.WantsPodKeys) && len(s.Pods) == 0:
		return Decision{Forget: true, Judged: true}
	case s.Off:
		return s.podKeysOff()
	case s.Trust.ID == "": // its bundle was not read yet, and that it was is an event
		return Decision{Memory: s.Memory, After: s.Pace.Pause}
	}
	v := &view{Situation: s, cert: s.Memory.certificate.followTrust(s.Trust, s.Now), consumers: s.consumers()}
	return v.decide()
}

// podKeysOff marks the conditions where nobody dials.
func (s Situation) podKeysOff() Decision {
	d := Decision{Memory: Memory{begun: s.Memory.begun}, Judged: true}
	for _, svc := range s.Services {
		if !api.WantsPodKeys(svc) {
			continue
		}
		if want := notVerified(svc); want != nil {
			d.Conditions = append(d.Conditions, Change{svc, want})
		}
	}
	return d
}

// followTrust returns what pods with keys of their own are judged by. No leaf is what all of
// them should serve. since is when the trust became what it is, by what the CA's status
// says: a new leader finds the same.
func (c certificate) followTrust(trust probe.Trust, now time.Time) certificate {
	if c.trust == trust.ID {
		return c
	}
	since := trust.Since
	if since.IsZero() || since.After(now) {
		since = now.Truncate(time.Second)
	}
	return certificate{podKeys: true, trust: trust.ID, since: since}
}

// podKeyEndpoint returns how the pods of a template are reached, and which names their
// certificates must have; an endpoint without Services if none that asks for one selects them. Pods
// with a Secret that their Service had before are the concern of the Services that keep it.
//
// A port must show the names of the Services that lead to it: another container may serve
// another Service at another port, with a Secret.
func podKeyEndpoint(t pods.Template, mounts []string, services []*corev1.Service) *endpoint {
	own, pod := slices.Contains(mounts, pods.PodKey), t.Pod()
	var selecting []*corev1.Service
	var ports []uint16
	demanded := map[uint16][]string{}
	for _, svc := range services {
		if !api.Selects(svc, pod) || !own && !keepsOneOf(svc, mounts) {
			continue
		}
		selecting = append(selecting, svc)
		names := demandedNames(svc, pod, own)
		for _, port := range targetsOf([]*corev1.Service{svc}, t.TCPPorts(), api.ReachOf(pod)) {
			ports = append(ports, port)
			demanded[port] = append(demanded[port], names...)
		}
	}
	if len(selecting) == 0 {
		return &endpoint{}
	}
	at := newEndpoint(ports, selecting)
	at.demanded = map[uint16]string{}
	for _, port := range at.ports {
		slices.Sort(demanded[port])
		at.demanded[port] = strings.Join(slices.Compact(demanded[port]), ",")
	}
	return at
}

// demandedNames returns the names of the Service that the certificate of its pod must have.
// One whose key the kubelet made (own) has the pod's own name below a headless Service, and
// the Secret from before has a wildcard.
func demandedNames(svc *corev1.Service, pod *corev1.Pod, own bool) []string {
	if ready := api.Condition(svc, api.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
		return nil // its names may not be in any certificate
	}
	names := []string{hostname(svc)}
	if own {
		names = api.NamesOfPod(pod, svc, append(api.PodKeyNames(svc), hostname(svc), "*."+hostname(svc)))
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "*.") })
}

// keepsOneOf reports whether the Service, whose pods make their keys, keeps one of the
// Secrets from before.
func keepsOneOf(svc *corev1.Service, secrets []string) bool {
	return api.WantsPodKeys(svc) && slices.ContainsFunc(api.KeptSecrets(svc), func(kept string) bool { return slices.Contains(secrets, kept) })
}

// podKeyState judges an answer of a pod with a key of its own. demanded are the names that
// its certificate must have.
//
// A leaf that an older generation signed, or that lacks a name, is replaced when it is
// refreshed, which nobody can hasten. Only one that is still served after that is stale, and
// one that clients do not accept any more.
func podKeyState(a probe.Answer, demanded string, cert certificate, p Pace) State {
	switch {
	case a.Kind == probe.Plaintext:
		return statePlaintext
	case a.Kind == probe.NotVerified:
		return stateNotVerified
	case a.Kind == probe.NoAnswer && a.At.Sub(a.Since) < p.settle():
		return statePending
	case a.Kind == probe.NoAnswer:
		return stateUnreachable
	case !answers(a, demanded, cert):
		return statePending
	case !a.Ours:
		return stateForeign
	case !a.At.Before(dueOf(a, cert).Add(p.Propagation)):
		return stateStale
	case !a.PodKey.Newest, a.PodKey.Lacks != "":
		return statePropagating
	}
	return stateCurrent
}

// answers reports whether the answer is a certificate that was judged by what is asked now.
func answers(a probe.Answer, demanded string, cert certificate) bool {
	return a.PodKey != nil && a.PodKey.Trust == cert.trust && a.PodKey.Demanded == demanded
}

// dueOf returns when the files of the pod should have held another certificate than the one
// that it has shown: when the kubelet has refreshed it, or when clients ceased to accept it.
func dueOf(a probe.Answer, cert certificate) time.Time {
	due := a.PodKey.RefreshAt.Add(kubeletLate)
	if !a.PodKey.Verifies {
		due = earlier(due, cert.since)
	}
	return due
}

// overdue returns since when the first of the certificates is stale that the pod serves, and
// whether one is that clients do not accept, although it was not to be refreshed yet.
func (c consumer) overdue(cert certificate, p Pace) (since time.Time, distrusted bool) {
	for _, a := range c.answers {
		if c.answerState(a, cert, p) != stateStale {
			continue
		}
		due := dueOf(a, cert)
		if since.IsZero() || due.Before(since) {
			since = due
		}
		distrusted = distrusted || due.Before(a.PodKey.RefreshAt)
	}
	return since.Truncate(time.Second), distrusted
}

// podKeyRegularly is regularly for a pod with a key of its own. Its kubelet replaces its
// certificate at a time that is known, and not before. So it is dialled when that should
// have been seen, and otherwise after the interval.
func (c consumer) podKeyRegularly(cert certificate, p Pace) time.Time {
	last, _ := c.last()
	if last.At.Before(c.seen) {
		return later(c.seen.Add(c.jitter(c.seen, 0, p.Pause/5)), last.At.Add(p.Pause))
	}
	at := c.rarely(last.At, p)
	switch state := c.state(cert, p); state {
	case stateCurrent, statePropagating, statePlaintext:
	case statePending:
		at = last.At.Add(p.Pause)
	default:
		lasted := last.At.Sub(last.Since)
		if state == stateStale {
			since, _ := c.overdue(cert, p)
			lasted = last.At.Sub(since.Add(p.Propagation))
		}
		if wait := max(p.Pause, lasted); wait*5/4 < p.Interval {
			at = last.At.Add(c.jitter(last.At, wait, wait/2))
		}
	}
	for _, a := range c.answers {
		if !answers(a, c.endpoint.demanded[a.Port], cert) {
			continue
		}
		if due := dueOf(a, cert).Add(p.Propagation); due.After(last.At) {
			at = earlier(at, due.Add(c.jitter(due, 0, p.Pause)))
		}
	}
	return at
}

// says reports whether it is for this decision to say what condition the Service is to
// have. The Service of a key of its own has one once the signer has said that it has.
func (v *view) says(svc *corev1.Service) bool {
	if !v.isPodKeys() {
		return true
	}
	ready := api.Condition(svc, api.ConditionReady)
	return api.WantsPodKeys(svc) && ready != nil && (api.HasPodKeys(svc) || ready.Status != metav1.ConditionTrue)
}
