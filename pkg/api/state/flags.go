package state

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Verdict is what the rotator found out about an attempt.
type Verdict string

// The verdicts.
const (
	// VerdictWithheld: the program exited because of what it was given, so new pods
	// do not get it.
	VerdictWithheld Verdict = "withheld"
	// VerdictSuspected: as VerdictWithheld, but the rotator only tells; new pods get it.
	VerdictSuspected Verdict = "suspected"
	// VerdictCleared: the program exited without it too, so new pods get it again.
	VerdictCleared Verdict = "cleared"
)

// Flags is the state beside condition Flags, by which the rotator tells the webhook what it found
// out about attempts: at most MaxAttempts.
type Flags []Attempt

// MaxAttempts is how many attempts a condition holds.
const MaxAttempts = 32

// The longest texts of an Attempt: a kind and the name of an object, and the name of a container.
const (
	maxWorkload  = 63 + 1 + 253
	maxContainer = 63
)

// Attempt is what the rotator found out about one attempt.
type Attempt struct {
	Attempt   string    `json:"attempt"` // api.AttemptOf
	Verdict   Verdict   `json:"verdict"`
	Workload  string    `json:"workload"` // for people, such as Deployment/web
	Container string    `json:"container"`
	Since     time.Time `json:"since"` // in whole seconds
	// OnTrial: the program did not name what it was given when it exited. Only without
	// the attempt it shows whether that was the cause.
	OnTrial bool `json:"onTrial,omitempty"`
}

// FlagsOf returns the state of the Service's condition Flags.
func FlagsOf(svc *corev1.Service) Flags {
	f := read[Flags](svc, api.ConditionFlags)
	f = slices.DeleteFunc(f, func(a Attempt) bool {
		known := a.Verdict == VerdictWithheld || a.Verdict == VerdictSuspected || a.Verdict == VerdictCleared
		return !known || !api.IsAttempt(a.Attempt) || len(a.Workload) > maxWorkload || len(a.Container) > maxContainer
	})
	return f[:min(len(f), MaxAttempts)]
}

// Established returns those of the attempts that hold for every pod of the namespace: the
// program itself named what it was given, so it does not matter which Service is asked.
func (f Flags) Established() Flags {
	return slices.DeleteFunc(slices.Clone(f), func(a Attempt) bool { return a.Verdict != VerdictWithheld || a.OnTrial })
}

// Withholds reports whether the webhook leaves the attempt out.
func (f Flags) Withholds(attempt string) bool {
	return slices.ContainsFunc(f, func(a Attempt) bool { return a.Attempt == attempt && a.Verdict == VerdictWithheld })
}
