package controller

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/signer"
)

// maxSkew is by how much this process's clock may differ from the API server's:
// beyond, what it signed would begin in the future, or end early, for others.
const maxSkew = 2 * time.Minute

// Skew watches how far the local clock is from the API server's, by the Date of
// every answer that passes through Wrap.
type Skew struct {
	clock  func() time.Time
	behind atomic.Int64 // how much later the server's clock is, in nanoseconds
}

// NewSkew returns a Skew for the given local clock.
func NewSkew(clock func() time.Time) *Skew { return &Skew{clock: clock} }

// Wrap observes the answers of rt; the form is that of rest.Config's Wrap.
func (s *Skew) Wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := rt.RoundTrip(r)
		if err == nil {
			if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
				s.behind.Store(int64(date.Sub(s.clock())))
			}
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Check returns a *skewError if the clocks differ by more than maxSkew.
func (s *Skew) Check() error {
	if behind := time.Duration(s.behind.Load()); behind.Abs() > maxSkew {
		return &skewError{Behind: behind}
	}
	return nil
}

// skewError is a clock that is too far from the API server's.
type skewError struct {
	Behind time.Duration // how much later the API server's clock is
}

// Reason is the condition's.
func (e *skewError) Reason() string { return string(signer.ReasonClockSkew) }

// Error does not say by how much the clocks differ: the text is a condition's message, and
// would be written again and again.
func (e *skewError) Error() string {
	direction := "behind"
	if e.Behind < 0 {
		direction = "ahead of"
	}
	return fmt.Sprintf("the signer's clock is more than %s %s the API server's: nothing is signed until one of them is corrected", maxSkew, direction)
}
