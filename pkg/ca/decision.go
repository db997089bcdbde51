package ca

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Decision is the result of Decide.
type Decision struct {
	// State is the stored CA; nil if there is none or it cannot be read.
	State *State
	// Problem is why nothing can be signed; zero if the CA can sign. The message never
	// contains the current time: each change would be a write of the status.
	Problem api.CAMessage
	// Warnings are reported and stop nothing.
	Warnings []api.CAMessage
	// Waiting is what the phase waits for, for people.
	Waiting string
	// Step is the next write to the CA Secret, if any.
	Step Step
	// Authority is what signs, nil if there is a Problem.
	Authority *pki.Authority
	// Interim is what to do about the interim CA, which signs for servingcert's own
	// namespace while there is a Problem.
	Interim Interim
	// RaiseFirst: Step raises a mark that is too low for the longest leaf. Authority
	// must not sign before that is written.
	RaiseFirst bool
	// Status is the content of the status ConfigMap once there is no Step. Nil: the
	// ConfigMap does not exist and must not be created.
	Status *api.CAStatus
	// Next is when the passage of time changes the decision; zero: never.
	Next time.Time
	// RequeueAfter is the longest time until the next decision.
	RequeueAfter time.Duration
}

// Apply returns the state after the decision's step, and the data of the CA Secret
// that holds it. It generates keys, and changes nothing.
func (d Decision) Apply(s Situation) (State, map[string][]byte, error) {
	var stored State
	if d.State != nil {
		stored = *d.State
	}
	next, err := apply(stored, d.Step, s)
	if err != nil {
		return State{}, nil, err
	}
	fresh, err := EncodeState(next)
	if err != nil {
		return State{}, nil, err
	}
	data := merged(s.Secret, fresh)
	switch {
	case d.State == nil:
		maps.Copy(data, setAside(s.Secret, next.Signing))
	case d.Step.Kind == StepFresh && s.Request.Mode == api.RotateDistrust:
		// A key that was set aside was in the same Secret, and clients may still trust
		// its root.
		maps.DeleteFunc(data, func(key string, _ []byte) bool { return strings.HasPrefix(key, setAsidePrefix) })
	}
	return next, data, nil
}

func (d *Decision) warn(reason, format string, args ...any) {
	d.Warnings = append(d.Warnings, api.CAMessage{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (d *Decision) stop(reason, format string, args ...any) {
	d.Problem = api.CAMessage{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// lookAt schedules a new decision at t, unless t is zero or an earlier one is scheduled.
func (d *Decision) lookAt(t time.Time) {
	d.Next = limit.EarliestSet(d.Next, t)
}
