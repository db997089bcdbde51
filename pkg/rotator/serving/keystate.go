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

// KeyState is what a process remembers of a key between two decisions. The Serving conditions store
// what must outlive the process.
type KeyState struct {
	certificate certificate    // of a Secret
	trusted     trusted        // for pods with keys of their own
	begun       time.Time      // of this process's first decision
	notified    []notification // for this certificate
	pods        map[types.UID]*podState
	// lacking has the Services without a ready pod, or without a ready pod with one of their ports,
	// and since when. It is replaced, never changed.
	lacking map[types.UID]time.Time
}

// notification identifies the content of an event, which is sent once per certificate.
type notification struct {
	workload        pods.Workload
	onRotate        api.OnRotate
	readsOtherFiles bool
}

// podState is the state of a pod between two decisions. It is replaced, never changed. The map has
// pointers because it allocates space for eight values, and most Secrets have few pods.
type podState struct {
	seen    time.Time
	answers []probe.Answer // replaced, never changed
	most    int            // number of answers that are kept
	reached string
	// refreshAt is when the kubelet was due to replace the leaf in reached; zero for one of a
	// Secret.
	refreshAt time.Time
	woken     time.Time // when the kubelet was last made to update its files
	// admits is its list of clients, and admitsSince as of the consumer.
	admits      string
	admitsSince time.Time
}

// NewKeyState returns the state before the first decision.
func NewKeyState(now time.Time) KeyState { return KeyState{begun: now} }

// Clone returns a copy that later answers do not change.
func (k KeyState) Clone() KeyState {
	k.pods = maps.Clone(k.pods)
	return k
}

// Record adds answers of a pod. It ignores a pod that is unknown, or was replaced by another of the
// same name.
func (k KeyState) Record(pod types.UID, answers []probe.Answer) {
	if known, ok := k.pods[pod]; ok {
		next := *known
		next.answers = probe.Latest(probe.Merge(known.answers, answers), known.most)
		k.pods[pod] = &next
	}
}

// Handshakes yields the latest handshakes of the ports that answered in TLS.
func (k KeyState) Handshakes() iter.Seq[probe.Handshake] {
	return func(yield func(probe.Handshake) bool) {
		for _, known := range k.pods {
			for _, a := range known.answers {
				if a.Kind == probe.TLS && !yield(a.Handshake) {
					return
				}
			}
		}
	}
}

// TakeAnswers copies the answers of the same pods, and when they were woken, from another state:
// they may have arrived since this one was made.
func (k KeyState) TakeAnswers(from KeyState) {
	for uid, known := range k.pods {
		next := *known
		next.answers, next.woken = nil, time.Time{}
		if had := from.pods[uid]; had != nil {
			next.answers, next.woken = had.answers, had.woken
		}
		k.pods[uid] = &next
	}
}

// newConsumer returns the consumer for a pod. known is its state, or nil.
func newConsumer(pod *pods.Facts, at *endpoint, known *podState, now time.Time) consumer {
	if known == nil {
		known = &podState{admits: pod.Admits}
	}
	c := consumer{pod: pod, endpoint: at, dialled: len(known.answers) > 0, reached: known.reached, refreshAt: known.refreshAt, woken: known.woken, admitsSince: known.admitsSince, list: at.listOf(pod), now: now}
	if pod.Admits != known.admits {
		c.admitsSince = now
	}
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
