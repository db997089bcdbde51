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
	// forget is the time since a workload's last deletion after which its deletions are forgotten.
	forget = 3 * shortLife
	// maxRounds is the maximum number of workloads of a namespace that are tracked.
	maxRounds = 100
)

// Rounds are the deletions of young injected pods, by workload. An operator that compares pods with
// its own template may delete each that has an unknown volume.
type Rounds map[pods.Workload]Round

// Round is the deletions of one workload's pods.
type Round struct {
	Injection pods.Injection
	Deleted   int
	Last      time.Time
}

// Counts reports whether the change of a pod is a deletion that counts. Kubernetes' own controllers
// do not compare pods with their template.
func Counts(before, after *pods.Facts, now time.Time) bool {
	if before == nil || after == nil || before.DeletionTimestamp != nil || after.DeletionTimestamp == nil {
		return false
	}
	t := after.Template.Value()
	return t.Injection.Injected && strings.Contains(t.Workload.APIVersion, ".") && now.Sub(after.CreationTimestamp.Time) < shortLife
}

// Add counts the deletion of the pod.
func (r Rounds) Add(pod *pods.Facts, now time.Time) {
	t := pod.Template.Value()
	r.Forget(now)
	round, known := r[t.Workload]
	if known || len(r) < maxRounds {
		r[t.Workload] = Round{t.Injection, round.Deleted + 1, now}
	}
}

// Forget removes old deletions.
func (r Rounds) Forget(now time.Time) {
	maps.DeleteFunc(r, func(_ pods.Workload, round Round) bool { return now.Sub(round.Last) >= forget })
}
