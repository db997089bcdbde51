package probe

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Silence is a time in which each visit of a pod to all its ports ended because a port
// took too long. It is zero for a pod whose ports all answer in time.
type Silence struct {
	// Since and Last are when the dial of such a port began first, and last.
	Since, Last time.Time
}

// Silences are those of pods, whichever ports and Secrets they were dialled for. A
// Service that names other ports, or another Secret, does not end the silence of its
// pods. It is not safe for concurrent use.
type Silences struct {
	pods map[types.UID]Silence
	// prune is how many pods are known when those are forgotten that were not visited
	// for a long time.
	prune int
}

const (
	// silenceKept is how long the silence of a pod that is not visited any more is
	// remembered: most such pods are gone.
	silenceKept = 24 * time.Hour
	// leastPruned is the number of pods below which none is forgotten.
	leastPruned = 1000
)

// NewSilences returns that no pod is silent.
func NewSilences() *Silences { return &Silences{pods: map[types.UID]Silence{}, prune: leastPruned} }

// Of returns the pod's silence.
func (s *Silences) Of(pod types.UID) Silence { return s.pods[pod] }

// Record takes in what the pod answered in a visit. A visit that left ports out does
// not end a silence, nor does one in which nothing was dialled.
func (s *Silences) Record(v Visit, answers []Answer) {
	for _, a := range answers {
		if a.Slow {
			s.add(v.Pod, a.At)
			return
		}
	}
	if !v.Partial && slices.ContainsFunc(answers, func(a Answer) bool { return a.Kind != NotVerified }) {
		delete(s.pods, v.Pod)
	}
}

func (s *Silences) add(pod types.UID, at time.Time) {
	known, ok := s.pods[pod]
	if !ok {
		known.Since = at
	}
	known.Last = at
	s.pods[pod] = known
	if len(s.pods) < s.prune {
		return
	}
	for uid, old := range s.pods {
		if at.Sub(old.Last) > silenceKept {
			delete(s.pods, uid)
		}
	}
	s.prune = max(leastPruned, 2*len(s.pods))
}
