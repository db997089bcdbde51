package serving

import (
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// PodKeySituation is the input of a decision about the pods of a namespace with their own keys. The
// Services are all that ask for a certificate. The Pods also include those that mount a Secret
// which a Service keeps from before.
type PodKeySituation struct {
	Common
	// Trust is the published state of the CA.
	Trust probe.Trust
	// Shared are the Secrets kept from before in which another Service has a part. Pods that mount
	// one, and have no key of their own, are counted with the Secret.
	Shared map[string]bool
}

// Decide decides which pods to dial, the Services' conditions, and which workloads are stale.
func (s PodKeySituation) Decide() Decision {
	switch {
	case !slices.ContainsFunc(s.Services, api.WantsPodKeys) && len(s.Pods) == 0:
		return Decision{Forget: true}
	case s.Off:
		return s.notVerified()
	case s.Trust.ID == "": // the bundle was not read yet; reading it triggers the next decision
		return Decision{KeyState: s.KeyState, After: s.Pace.Pause}
	}
	now := s.KeyState.trusted.follow(s.Trust, s.Now)
	v := s.view(&podKeys{&s, now}, KeyState{trusted: now, notified: slices.Clone(s.KeyState.notified)})
	v.decide()
	// A later certificate of a pod is reported again.
	v.d.KeyState.notified = slices.DeleteFunc(v.d.KeyState.notified, func(key notification) bool { return v.stale[key] == nil })
	return v.d
}

// notVerified marks the conditions if pods are not dialled.
func (s PodKeySituation) notVerified() Decision {
	d := Decision{KeyState: KeyState{begun: s.KeyState.begun}}
	for _, svc := range s.Services {
		if !api.WantsPodKeys(svc) {
			continue
		}
		d.release([]*corev1.Service{svc}, notDialled)
		if want := notVerified(svc); want != nil {
			d.Conditions = append(d.Conditions, ConditionUpdate{svc, want})
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

// counts reports whether the pod has its own key, or mounts no Secret that another Service shares.
func (k *podKeys) counts(pod *pods.Facts) bool {
	return pod.HasPodKey() || pod.HasOtherPodKey() || !slices.ContainsFunc(pod.Secrets(), func(secret string) bool { return k.Shared[secret] })
}

func (k *podKeys) complete(target *probe.Target, at *endpoint) {
	target.Names, target.PodKey = hostnames(at.services), &probe.PodKeyRequirements{Demanded: at.demanded}
}

// reached records the newest certificate of the pod's own key. For a replaced one it adds the delay
// until the new one was issued, not until it was seen, as such pods are dialled rarely. A
// certificate issued before the previous one was due has no delay: a restarted kubelet requests one
// at once.
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

// latestOwn returns the answer with the newest certificate of the pod's own key, or nil.
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
			out = append(out, podKeyStatement(svc, seen, k.trusted).ofOtherSigner().unlessKeyless(k.Keyless[svc.UID]))
		}
	}
	return out
}

// ofOtherSigner returns the statement, or, if another signer issues the certificates, the one that does not claim that
// clients accept them.
func (s statement) ofOtherSigner() statement {
	if s.rule.state == stateCurrent && api.HasOtherPodKeys(s.service) {
		s.rule.podKeys = "every ready pod of this Service that has a key of its own serves a certificate that is valid and has one of its names; who issued it is not verified"
	}
	return s
}

// hasPodKeyCondition reports whether the condition of the Service is about its pods' own keys: as
// soon as condition Ready states that the pods have them.
func hasPodKeyCondition(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	return api.WantsPodKeys(svc) && ready != nil && (api.HasPodKeys(svc) || ready.Status != metav1.ConditionTrue)
}

// podKeyEndpoint returns how to reach the pods of a template, and which names their certificates
// must have. Without a Service that selects them and asks for a certificate, the endpoint has no
// Services. Pods that mount a Secret from before belong to the Services that keep it.
//
// Each port must show the names of the Services that use it: another container may serve another
// Service, with a Secret, at another port.
func podKeyEndpoint(facts *pods.Facts, services []*corev1.Service) *endpoint {
	own, other, mounts := facts.HasPodKey(), facts.HasOtherPodKey(), facts.Secrets()
	b := newBuilder(facts.Template.Value())
	pod := b.template.Pod()
	var selecting []*corev1.Service
	demanded, ours := map[uint16][]string{}, map[uint16]bool{}
	var beyond []*corev1.Service
	for _, svc := range services {
		has := own
		if api.HasOtherPodKeys(svc) {
			has = other
		}
		if !api.Selects(svc, pod) || !has && !keepsOneOf(svc, mounts) {
			continue
		}
		if b.full() {
			beyond = append(beyond, svc)
			continue
		}
		selecting = append(selecting, svc)
		names := demandedNames(svc, pod, has)
		b.targets += len(names)
		for _, port := range b.add(svc) {
			demanded[port] = append(demanded[port], names...)
			ours[port] = ours[port] || !api.HasOtherPodKeys(svc) || !other
		}
	}
	if len(selecting) == 0 {
		return &endpoint{}
	}
	at := b.endpoint(selecting)
	at.beyond, at.demanded = beyond, map[uint16]probe.Demand{}
	for _, port := range at.ports {
		slices.Sort(demanded[port])
		names := strings.Join(slices.Compact(demanded[port]), ",")
		at.demanded[port] = probe.Demand{Names: unique.Make(names).Value(), Other: !ours[port]} // most ports, and pods, have the same
	}
	return at
}

// demandedNames returns the names of the Service that the certificate of its pod must have. If the
// kubelet made the key (own), they include the pod's name below a headless Service; the Secret from
// before has a wildcard.
func demandedNames(svc *corev1.Service, pod *corev1.Pod, own bool) []string {
	if ready := api.Condition(svc, api.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
		return nil // its names may not be in any certificate yet
	}
	names := []string{hostname(svc)}
	if own {
		names = api.NamesOfPod(pod, svc, append(state.ReadyOf(svc).Names, hostname(svc), "*."+hostname(svc)))
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "*.") })
}

// keepsOneOf reports whether the Service, whose pods have their own keys, keeps one of the Secrets
// from before.
func keepsOneOf(svc *corev1.Service, secrets []string) bool {
	return api.WantsPodKeys(svc) && slices.ContainsFunc(state.ReadyOf(svc).Kept, func(kept string) bool { return slices.Contains(secrets, kept) })
}
