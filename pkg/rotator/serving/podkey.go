package serving

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// PodKeySituation is what a decision about the pods of a namespace with keys of their own is
// made from. The Services are all that ask for a certificate. The Pods are those with such
// keys, and those that mount a Secret which a Service keeps from before it asked for them.
type PodKeySituation struct {
	Common
	// Trust is what the keys are judged by.
	Trust probe.Trust
	// Shared are those Secrets, of the ones that Services keep from before, in which
	// another Service has a part. Pods that mount one, and have no key of their own, are
	// counted with it.
	Shared map[string]bool
}

// Decide says which pods to dial, what the Services' conditions are to be, and what is
// stale.
func (s PodKeySituation) Decide() Decision {
	switch {
	case !slices.ContainsFunc(s.Services, api.WantsPodKeys) && len(s.Pods) == 0:
		return Decision{Forget: true}
	case s.Off:
		return s.notVerified()
	case s.Trust.ID == "": // its bundle was not read yet, and that it was is an event
		return Decision{Memory: s.Memory, After: s.Pace.Pause}
	}
	now := s.Memory.trusted.follow(s.Trust, s.Now)
	v := s.view(&podKeys{&s, now}, Memory{trusted: now, notified: slices.Clone(s.Memory.notified)})
	v.decide()
	// The next certificate of a pod is reported again.
	v.d.Memory.notified = slices.DeleteFunc(v.d.Memory.notified, func(key notification) bool { return v.stale[key] == nil })
	return v.d
}

// notVerified marks the conditions where nobody dials.
func (s PodKeySituation) notVerified() Decision {
	d := Decision{Memory: Memory{begun: s.Memory.begun}}
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

// podKeys is the subject of a PodKeySituation.
type podKeys struct {
	*PodKeySituation
	trusted
}

func (k *podKeys) key() pods.Key { return pods.PodKey }

func (k *podKeys) endpointOf(pod *pods.Facts) *endpoint { return podKeyEndpoint(pod, k.Services) }

// counts reports whether the pod has a key of its own, or no Secret in which another Service
// has a part than those that keep it from before.
func (k *podKeys) counts(pod *pods.Facts) bool {
	return pod.HasPodKey() || !slices.ContainsFunc(pod.Secrets(), func(secret string) bool { return k.Shared[secret] })
}

func (k *podKeys) ask(visit *probe.Visit, at *endpoint) {
	visit.Names, visit.PodKey = hostnames(at.services), &probe.PodKeyQuestion{Demanded: at.demanded}
}

// reached notes the latest certificate of the pod's own key that it serves. One that took
// the place of another says how late that was: what is measured is when it was issued, and
// not when it was seen, as such a pod is dialled rarely. One that was issued before the
// other was due says nothing: a kubelet that was restarted asks at once.
func (k *podKeys) reached(c consumer, d *Decision) (leaf string, refreshAt time.Time) {
	latest := c.latestOwn()
	if latest == nil || latest.Leaf == c.reached {
		return c.reached, c.refreshAt
	}
	issued := latest.NotBefore.Add(pki.PodBackdate)
	if c.reached != "" && !issued.Before(c.refreshAt) {
		d.RefreshDelays = append(d.RefreshDelays, issued.Sub(c.refreshAt))
	}
	return latest.Leaf, latest.PodKey.RefreshAt
}

// latestOwn returns the answer with the youngest certificate of the pod's own key, nil if
// there is none.
func (c consumer) latestOwn() *probe.Answer {
	if !c.pod.HasPodKey() {
		return nil
	}
	var latest *probe.Answer
	for i := range c.answers {
		a := &c.answers[i]
		if a.Kind == probe.TLS && a.Ours && a.PodKey != nil && (latest == nil || a.NotBefore.After(latest.NotBefore)) {
			latest = a
		}
	}
	return latest
}

func (k *podKeys) describe(w *StaleWorkload, c consumer) {
	for _, svc := range c.endpoint.services {
		if i, found := slices.BinarySearch(w.Services, svc.Name); !found {
			w.Services = slices.Insert(w.Services, i, svc.Name)
		}
	}
}

func (k *podKeys) statements(seen Seen) []statement {
	var out []statement
	for _, svc := range k.Services {
		if hasPodKeyCondition(svc) {
			out = append(out, podKeyStatement(svc, seen.groups, k.trusted))
		}
	}
	return out
}

// hasPodKeyCondition reports whether the condition of the Service is about keys of its pods:
// once the signer has said that it has them.
func hasPodKeyCondition(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	return api.WantsPodKeys(svc) && ready != nil && (api.HasPodKeys(svc) || ready.Status != metav1.ConditionTrue)
}

// podKeyEndpoint returns how the pods of a template are reached, and which names their
// certificates must have; an endpoint without Services if none that asks for one selects them. Pods
// with a Secret that their Service had before are the concern of the Services that keep it.
//
// A port must show the names of the Services that lead to it: another container may serve
// another Service at another port, with a Secret.
func podKeyEndpoint(facts *pods.Facts, services []*corev1.Service) *endpoint {
	own, mounts := facts.HasPodKey(), facts.Secrets()
	b := newBuilder(facts.Template.Value())
	pod := b.template.Pod()
	var selecting []*corev1.Service
	demanded := map[uint16][]string{}
	for _, svc := range services {
		if !api.Selects(svc, pod) || !own && !keepsOneOf(svc, mounts) {
			continue
		}
		selecting = append(selecting, svc)
		names := demandedNames(svc, pod, own)
		for _, port := range b.add(svc) {
			demanded[port] = append(demanded[port], names...)
		}
	}
	if len(selecting) == 0 {
		return &endpoint{}
	}
	at := b.endpoint(selecting)
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
		names = api.NamesOfPod(pod, svc, append(state.ReadyOf(svc).Names, hostname(svc), "*."+hostname(svc)))
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "*.") })
}

// keepsOneOf reports whether the Service, whose pods make their keys, keeps one of the
// Secrets from before.
func keepsOneOf(svc *corev1.Service, secrets []string) bool {
	return api.WantsPodKeys(svc) && slices.ContainsFunc(state.ReadyOf(svc).Kept, func(kept string) bool { return slices.Contains(secrets, kept) })
}
