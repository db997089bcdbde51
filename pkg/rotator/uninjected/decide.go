package uninjected

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Situation is what a decision about one namespace is made from.
type Situation struct {
	Now   time.Time
	Place Place
	Pods  []*pods.Facts
	// Choose is the webhook's decision.
	Choose Choose
	// Patience is how long pods must have been missed before an event reports it.
	Patience time.Duration
	// MaxEvents is how many groups of pods are reported by an event each; one more
	// event reports the rest.
	MaxEvents int
	// Records are those of the last Decision about the namespace.
	Records map[Key]Record
}

// Record is what is remembered of a Group.
type Record struct {
	Since    time.Time
	Notified bool // an event has reported it
}

// Decision is what follows for the namespace.
type Decision struct {
	// Forget: nothing is to be remembered of the namespace. The rest is empty.
	Forget bool
	// Pods are the missed pods, and Workloads the groups that they are in. Those on which
	// the webhook noted something are only reported.
	Pods, Workloads int
	Notify          []Group // one event each
	Rest            []Group // one event for all of them
	// Records replace those that were remembered: what is gone is forgotten, and
	// reported again if it comes back.
	Records map[Key]Record
	// After is when to look again, 0 if nothing is waited for.
	After time.Duration
}

// Decide finds the missed pods of a namespace, and those on which the webhook noted
// something, and says which of them an event is to report. A group is reported once, when it has been missed for Patience: where
// Service and workload are changed together, the rollout that follows ends it.
func Decide(s Situation) Decision {
	if !s.Place.OptedIn {
		return Decision{Forget: true}
	}
	return s.decide(group(s.Pods, s.Place, s.Choose))
}

func (s Situation) decide(found []Group) Decision {
	d := Decision{Records: make(map[Key]Record, len(found))}
	for _, g := range found {
		if g.Noted == "" {
			d.Workloads, d.Pods = d.Workloads+1, d.Pods+g.Pods
		}
		r, known := s.Records[g.Key]
		if !known {
			r.Since = s.Now
		}
		if wait := r.Since.Add(s.Patience).Sub(s.Now); wait > 0 && !r.Notified {
			if d.After == 0 || wait < d.After {
				d.After = wait
			}
		} else if !r.Notified {
			r.Notified = true
			d.Notify = append(d.Notify, g)
		}
		d.Records[g.Key] = r
	}
	if len(d.Notify) > s.MaxEvents {
		d.Notify, d.Rest = d.Notify[:s.MaxEvents], d.Notify[s.MaxEvents:]
	}
	return d
}
