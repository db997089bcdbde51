package invariant

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Outcome is what became of one attempt to create a pod.
type Outcome int

// The outcomes.
const (
	Admitted Outcome = iota
	Bare             // admitted without a certificate
	Refused          // the API server answered that the webhook did not, or said no
	Away             // the API server or its etcd did not answer
)

// Classify returns the outcome of an attempt that ended with err, or with a pod that was
// injected or not.
func Classify(err error, injected bool) Outcome {
	var status apierrors.APIStatus
	switch {
	case err == nil && injected:
		return Admitted
	case err == nil:
		return Bare
	case !errors.As(err, &status):
		return Away
	}
	for _, text := range []string{"failed calling webhook", "denied the request", "failed to call webhook"} {
		if strings.Contains(err.Error(), text) {
			return Refused
		}
	}
	return Away
}

// Admissions count pods that were to be created during a fault.
type Admissions struct {
	Admitted, Bare, Refused, Away int // attempts
	// Lost are pods that were refused for longer than whoever creates them again waits.
	Lost int
}

// Add counts an attempt.
func (a *Admissions) Add(o Outcome) {
	switch o {
	case Admitted:
		a.Admitted++
	case Bare:
		a.Bare++
	case Refused:
		a.Refused++
	case Away:
		a.Away++
	}
}

// Check returns what must not be: a pod without a certificate, a pod that was never
// admitted, and, where both webhooks and the API server work, an attempt that failed.
func (a Admissions) Check(mayRefuse bool) []string {
	var out []string
	if a.Bare > 0 {
		out = append(out, fmt.Sprintf("%d pods were admitted without a certificate", a.Bare))
	}
	if a.Lost > 0 {
		out = append(out, fmt.Sprintf("%d pods were never admitted", a.Lost))
	}
	if a.Refused > 0 && !mayRefuse {
		out = append(out, fmt.Sprintf("%d attempts to create a pod were refused", a.Refused))
	}
	if a.Admitted == 0 {
		out = append(out, "no pod was admitted")
	}
	return out
}
