package uninjected

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Situation is the input of a decision about one namespace.
type Situation struct {
	Now   time.Time
	Place Place
	Pods  []*pods.Facts
	// Patience is how long pods must have been missed before an event reports it.
	Patience time.Duration
	// MaxEvents is the maximum number of groups with an event each; one more event reports the
	// rest.
	MaxEvents int
	// GroupStates are those of the previous Decision about the namespace.
	GroupStates map[Key]GroupState
}

// GroupState is what is remembered of a Group.
type GroupState struct {
	Since    time.Time
	Notified bool // an event has reported it
}

// Decision is the result for the namespace.
type Decision struct {
	// Forget: delete the state of the namespace. The rest is empty.
	Forget bool
	// Pods is the number of pods that are not as they would be if they were created now, and Workloads
	// that of their groups. Pods with notes of the webhook are not counted.
	Pods, Workloads int
	Notify          []Group // one event each
	Rest            []Group // one event for all of them
	// GroupStates replace the previous ones. A group that is gone is forgotten, and reported again
	// if it returns.
	GroupStates map[Key]GroupState
	// After is when to decide again; 0: only after a change.
	After time.Duration
}

// Decide finds the missed pods of a namespace, and those with notes of the webhook, and decides
// which an event reports. A group is reported once, after it was missed for Patience: if Service
// and workload are changed together, the rollout ends it before.
func Decide(s Situation) Decision {
	if !s.Place.OptedIn {
		return Decision{Forget: true}
	}
	return s.decide(group(s.Pods, s.Place))
}

func (s Situation) decide(found []Group) Decision {
	d := Decision{GroupStates: make(map[Key]GroupState, len(found))}
	for _, g := range found {
		if g.Noted == "" {
			d.Workloads, d.Pods = d.Workloads+1, d.Pods+g.Pods
		}
		r, known := s.GroupStates[g.Key]
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
		d.GroupStates[g.Key] = r
	}
	if len(d.Notify) > s.MaxEvents {
		d.Notify, d.Rest = d.Notify[:s.MaxEvents], d.Notify[s.MaxEvents:]
	}
	return d
}
