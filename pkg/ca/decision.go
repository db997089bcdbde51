package ca

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Decision is what follows from a Situation.
type Decision struct {
	// State is the stored CA, nil where there is none that can be read.
	State *State
	// Problem is why nothing can be signed, zero if it can. The message holds no
	// current time: it is written to the status, where each change is a write.
	Problem api.CAMessage
	// Warnings are reported and stop nothing.
	Warnings []api.CAMessage
	// Waiting is what the phase waits for, for people.
	Waiting string
	// Step is the write to the CA Secret that is next, if any.
	Step Step
	// Authority is what signs, nil if there is a Problem.
	Authority *pki.Authority
	// Interim is what to do about the interim CA, and what signs for servingcert's own
	// namespace where there is a Problem.
	Interim Interim
	// RaiseFirst: Step raises a mark that is too low for the longest leaf. Until
	// that is written, Authority must not sign.
	RaiseFirst bool
	// Status is what the status ConfigMap must hold once there is no Step. Nil: it
	// is absent, and is not to be made.
	Status *api.CAStatus
	// Next is when time changes the decision; zero: never.
	Next time.Time
	// RequeueAfter is after how long to decide anew, at the latest.
	RequeueAfter time.Duration
}

// Apply returns the state after the decision's step, and the data of the CA Secret
// that holds it. It draws keys, and changes nothing.
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
		// A key that was set aside lay in the same Secret, and clients may still hold
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

// lookAt has the decision made anew at t, if that is the first such time.
func (d *Decision) lookAt(t time.Time) {
	if d.Next.IsZero() || t.Before(d.Next) {
		d.Next = t
	}
}
