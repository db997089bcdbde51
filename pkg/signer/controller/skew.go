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
// every answer that passes through Wrap. Between two answers the API server's clock
// is taken to go on as the monotonic clock does, so that a local clock which somebody
// sets is wrong at once.
type Skew struct {
	clock   func() time.Time
	elapsed func() time.Duration // since some moment, whatever the clock is set to
	last    atomic.Pointer[dated]
}

// dated is the last answer that had a date.
type dated struct {
	date time.Time
	at   time.Duration // by elapsed
}

// NewSkew returns a Skew for the given local clock, whose times have a monotonic
// reading if they are time.Now's.
func NewSkew(clock func() time.Time) *Skew {
	start := clock()
	return newSkew(clock, func() time.Duration { return clock().Sub(start) })
}

func newSkew(clock func() time.Time, elapsed func() time.Duration) *Skew {
	return &Skew{clock: clock, elapsed: elapsed}
}

// Wrap observes the answers of rt; the form is that of rest.Config's Wrap.
func (s *Skew) Wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := rt.RoundTrip(r)
		if err == nil {
			if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
				s.last.Store(&dated{date, s.elapsed()})
			}
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Check returns a *skewError if the clocks differ by more than maxSkew.
func (s *Skew) Check() error {
	last := s.last.Load()
	if last == nil {
		return nil
	}
	server := last.date.Add(s.elapsed() - last.at)
	if behind := server.Sub(s.clock()); behind.Abs() > maxSkew {
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
