package correct

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// namespace is a situation in order.
type namespace struct {
	Situation
	// asking are the Services that ask for a Secret, by their name, and the oldest that
	// ask for each, by its name.
	asking, asked map[string]*corev1.Service
	groups        map[groupKey]*group
	keys          map[*corev1.Service][]groupKey // of the groups, in an order that does not depend on chance
	alive         map[string]bool                // attempts that a pod has, made or withheld
	said          readings
	dial          []probe.Visit
	pause         time.Duration // see pauseFor
	after         time.Duration // until the next pod is to be dialled; 0 for never
}

// groupKey is an attempt with a container of a workload, and the Service that the fact about
// it is written on, nil if there is none.
type groupKey struct {
	service            *corev1.Service
	attempt, container string
	workload           pods.Workload // zero for bare pods
}

// group is the pods of a workload that one attempt was made with, or withheld from. What one
// workload does without it says nothing of another: its arguments may be others.
type group struct {
	faults []fault // the strongest first
	// failing is a pod that fails without the attempt, and its crash; nil if none does.
	failing *fault
}

func newNamespace(s Situation) *namespace {
	if s.NotOptedIn {
		s.Pods = nil
	}
	s.Pods, s.Services = slices.Clone(s.Pods), slices.Clone(s.Services)
	slices.SortFunc(s.Pods, func(a, b *pods.Facts) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Services, func(a, b Service) int { return api.OlderFirst(a.Service, b.Service) })
	n := &namespace{
		Situation: s, asking: map[string]*corev1.Service{}, asked: map[string]*corev1.Service{},
		groups: map[groupKey]*group{}, keys: map[*corev1.Service][]groupKey{}, alive: map[string]bool{}, said: readings{before: s.Readings}, pause: pauseFor(s.Pods),
	}
	n.indexServices()
	n.addPods()
	for key, g := range n.groups {
		if g.failing != nil { // so that only the program's own words tell
			g.faults = slices.DeleteFunc(g.faults, func(f fault) bool { return f.evidence != EvidenceNamed })
		}
		slices.SortFunc(g.faults, stronger)
		n.keys[key.service] = append(n.keys[key.service], key)
	}
	for _, keys := range n.keys {
		slices.SortFunc(keys, func(a, b groupKey) int {
			return cmp.Or(cmp.Compare(a.attempt, b.attempt), cmp.Compare(a.container, b.container), a.workload.Compare(b.workload))
		})
	}
	return n
}

func (n *namespace) indexServices() {
	for _, svc := range n.Services {
		secret, asks := api.Wants(svc.Service)
		if !asks {
			continue
		}
		n.asking[svc.Name] = svc.Service
		if n.asked[secret] == nil {
			n.asked[secret] = svc.Service
		}
	}
}

func (n *namespace) addPods() {
	attempts := make([][]api.ContainerAttempt, len(n.Pods))
	families := map[family]*kin{}
	of := func(t *pods.Template) *kin {
		f := family{t.Workload, t.Revision()}
		if families[f] == nil || t.Workload.Bare() { // bare pods have no kin
			families[f] = newKin(&n.said)
		}
		return families[f]
	}
	for i, pod := range n.Pods {
		t := pod.Template.Value()
		if attempts[i] = t.ContainerAttempts(); !t.Workload.Bare() {
			of(&t).add(pod, attempts[i], n.Now)
		}
	}
	for i, pod := range n.Pods {
		t := pod.Template.Value()
		siblings := of(&t)
		for _, a := range attempts[i] {
			n.alive[a.Attempt] = true
			n.add(pod, a, siblings)
		}
	}
}

func (n *namespace) add(pod *pods.Facts, a api.ContainerAttempt, siblings *kin) {
	key := groupKey{n.serviceOf(pod), a.Attempt, a.Container, pod.Template.Value().Workload}
	g := n.groups[key]
	if g == nil {
		g = &group{}
		n.groups[key] = g
	}
	if a.Withheld {
		if crash := crashOf(pod, a.Container); crash != nil && fails(*crash, n.Now) && pod.DeletionTimestamp == nil {
			g.failing = &fault{pod: pod, crash: *crash}
		}
		return
	}
	if f, ok := judge(pod, a, siblings); ok {
		g.faults = append(g.faults, f)
	}
	f, blamed, due, wait := judgeUnready(pod, a, n.Answers[pod.UID], siblings, n.Now, n.pause)
	switch {
	case blamed:
		g.faults = append(g.faults, f)
	case due:
		n.dial = append(n.dial, visit(pod, n.Answers[pod.UID]))
	default:
		n.after = sooner(n.after, wait)
	}
}

// serviceOf returns the Service on which facts about the pod are written: the one that
// the pod got its certificate for, or the oldest that asks for its Secret; nil if there
// is none.
func (n *namespace) serviceOf(pod *pods.Facts) *corev1.Service {
	given := pod.Template.Value().Given
	return cmp.Or(n.asking[given.Service], n.asked[given.Secret])
}

// worst returns the fault that says the most, or nil.
func (g *group) worst() *fault {
	if len(g.faults) == 0 {
		return nil
	}
	return &g.faults[0]
}

func (g *group) finding(key groupKey, verdict state.Verdict) Finding {
	if verdict == state.VerdictCleared {
		return findingOf(*g.failing, key, verdict)
	}
	return findingOf(*g.worst(), key, verdict)
}

func findingOf(f fault, key groupKey, verdict state.Verdict) Finding {
	return Finding{
		Verdict: verdict, Attempt: key.attempt, Container: key.container, Service: key.service,
		Workload: f.pod.Template.Value().Workload, Pod: f.pod.Name, PodUID: f.pod.UID,
		ExitCode: f.crash.ExitCode, Evidence: f.evidence, Line: f.line,
	}
}
