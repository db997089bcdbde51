package serving

import (
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Memory is what a process remembers of a key between two decisions. What must
// outlive the process is in the Serving conditions.
type Memory struct {
	certificate certificate    // of a Secret
	trusted     trusted        // for pods with keys of their own
	begun       time.Time      // when this process first looked
	notified    []notification // of this certificate, none twice
	pods        map[types.UID]*remembered
	// lacking are the Services that have no ready pod, or none with one of their ports, and
	// since when. It is replaced, never changed.
	lacking map[types.UID]time.Time
}

// notification is what an event reports, once for each certificate.
type notification struct {
	workload        pods.Workload
	onRotate        api.OnRotate
	readsOtherFiles bool
}

// remembered is what is kept of a pod between two decisions. It is replaced, never changed, and
// by itself in memory: a map has room for eight, and of most Secrets there are few pods.
type remembered struct {
	seen    time.Time
	answers []probe.Answer // replaced, never changed
	reached string
	// refreshAt is when the kubelet was asked to begin to replace the one that was reached,
	// zero for one of a Secret.
	refreshAt time.Time
	woken     time.Time // when the kubelet was last made to update its files
}

// maxAnswers bounds how many ports of a pod answers are remembered of. Ports that no
// Service names any more are among them.
const maxAnswers = 4 * probe.MaxPorts

// NewMemory returns the memory of a process that first looks at a Secret.
func NewMemory(now time.Time) Memory { return Memory{begun: now} }

// Clone returns a copy that later answers do not change.
func (m Memory) Clone() Memory {
	m.pods = maps.Clone(m.pods)
	return m
}

// Record takes in what a pod answered. A pod that is not remembered is passed
// over; so is one that was replaced by another of the same name.
func (m Memory) Record(pod types.UID, answers []probe.Answer) {
	if known, ok := m.pods[pod]; ok {
		next := *known
		next.answers = probe.Latest(probe.Merge(known.answers, answers), maxAnswers)
		m.pods[pod] = &next
	}
}

// Handshakes yields those of the ports that answered in TLS when they were dialled last.
func (m Memory) Handshakes() iter.Seq[probe.Handshake] {
	return func(yield func(probe.Handshake) bool) {
		for _, known := range m.pods {
			for _, a := range known.answers {
				if a.Kind == probe.TLS && !yield(a.Handshake) {
					return
				}
			}
		}
	}
}

// TakeAnswers takes over the answers of the same pods in another memory, and when
// they were woken, which have come in since this one was made.
func (m Memory) TakeAnswers(from Memory) {
	for uid, known := range m.pods {
		next := *known
		next.answers, next.woken = nil, time.Time{}
		if had := from.pods[uid]; had != nil {
			next.answers, next.woken = had.answers, had.woken
		}
		m.pods[uid] = &next
	}
}

// recall puts together what is known of a pod: of known, nil if nothing is.
func recall(pod *pods.Facts, at *endpoint, known *remembered, now time.Time) consumer {
	if known == nil {
		known = &remembered{}
	}
	c := consumer{pod: pod, endpoint: at, reached: known.reached, refreshAt: known.refreshAt, woken: known.woken}
	for _, a := range known.answers {
		if slices.Contains(at.ports, a.Port) && a.Protocol == at.protocols[a.Port] {
			c.answers = append(c.answers, a)
		}
	}
	if c.seen = known.seen; !pod.Ready {
		c.seen = time.Time{}
	} else if c.seen.IsZero() {
		c.seen = now
	}
	return c
}
