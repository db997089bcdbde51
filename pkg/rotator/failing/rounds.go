package failing

import (
	"maps"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

const (
	// shortLife is the age below which the deletion of a pod counts.
	shortLife = 5 * time.Minute
	// forget is after how long without another deletion a workload's deletions are forgotten.
	forget = 3 * shortLife
	// maxRounds is how many workloads of a namespace are followed. Of more, none is added.
	maxRounds = 100
)

// Rounds are the deletions of pods that were given something and did not grow old, by workload. An
// operator that compares pods with its own idea of them may delete each that has a volume that it
// does not know.
type Rounds map[pods.Workload]Round

// Round is the deletions of one workload's pods.
type Round struct {
	Given   pods.Given
	Deleted int
	Last    time.Time
}

// Counts reports whether the change of a pod is a deletion that counts. Workloads of Kubernetes
// itself do not compare pods with anything.
func Counts(before, after *pods.Facts, now time.Time) bool {
	if before == nil || after == nil || before.DeletionTimestamp != nil || after.DeletionTimestamp == nil {
		return false
	}
	t := after.Template.Value()
	return t.Given.Injected && strings.Contains(t.Workload.APIVersion, ".") && now.Sub(after.CreationTimestamp.Time) < shortLife
}

// Add counts the deletion of the pod.
func (r Rounds) Add(pod *pods.Facts, now time.Time) {
	t := pod.Template.Value()
	r.Forget(now)
	round, known := r[t.Workload]
	if known || len(r) < maxRounds {
		r[t.Workload] = Round{t.Given, round.Deleted + 1, now}
	}
}

// Forget drops the deletions that are old.
func (r Rounds) Forget(now time.Time) {
	maps.DeleteFunc(r, func(_ pods.Workload, round Round) bool { return now.Sub(round.Last) >= forget })
}
