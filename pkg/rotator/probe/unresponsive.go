package probe

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// UnresponsivePeriod is a period in which all dials of a pod ended because a port timed out. It is
// zero for a pod whose ports all answer in time.
type UnresponsivePeriod struct {
	// Since and Last are when the first and the last dial of such a port began.
	Since, Last time.Time
}

// UnresponsivePods has the periods of pods, for all ports and Secrets. A Service that uses other
// ports, or another Secret, does not end the period of its pods. It is not safe for concurrent use.
type UnresponsivePods struct {
	pods map[types.UID]UnresponsivePeriod
	// prune is the number of pods at which those are removed that were not dialled for a long time.
	prune int
}

const (
	// keepUnresponsive is how long the period of a pod that is no longer dialled is remembered:
	// most such pods were deleted.
	keepUnresponsive = 24 * time.Hour
	// minPruned is the number of pods below which none is removed.
	minPruned = 1000
)

// NewUnresponsivePods returns an empty set.
func NewUnresponsivePods() *UnresponsivePods {
	return &UnresponsivePods{pods: map[types.UID]UnresponsivePeriod{}, prune: minPruned}
}

// Of returns the period of the pod.
func (s *UnresponsivePods) Of(pod types.UID) UnresponsivePeriod { return s.pods[pod] }

// Record adds the answers of a pod. A period does not end if ports were left out, or none was
// dialled.
func (s *UnresponsivePods) Record(v Target, answers []Answer) {
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

func (s *UnresponsivePods) add(pod types.UID, at time.Time) {
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
		if at.Sub(old.Last) > keepUnresponsive {
			delete(s.pods, uid)
		}
	}
	s.prune = max(minPruned, 2*len(s.pods))
}
