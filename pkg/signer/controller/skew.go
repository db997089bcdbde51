package controller

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/signer"
)

// maxSkew is the largest difference allowed between the local clock and the API server's:
// beyond it, certificates would begin in the future, or end early, for others.
const maxSkew = 2 * time.Minute

// Skew measures the difference between the local clock and the API server's, by the Date
// header of every response that passes through Wrap. Between two responses, it assumes that
// the API server's clock advances with the monotonic clock, so it detects at once that the
// local clock was set.
type Skew struct {
	clock   func() time.Time
	elapsed func() time.Duration // monotonic, not affected when the clock is set
	last    atomic.Pointer[dated]
}

// dated is the last response with a Date header.
type dated struct {
	date time.Time
	at   time.Duration // by elapsed
}

// NewSkew returns a Skew for the local clock. The times of time.Now have the monotonic
// reading that it needs.
func NewSkew(clock func() time.Time) *Skew {
	start := clock()
	return newSkew(clock, func() time.Duration { return clock().Sub(start) })
}

func newSkew(clock func() time.Time, elapsed func() time.Duration) *Skew {
	return &Skew{clock: clock, elapsed: elapsed}
}

// Wrap returns a RoundTripper that observes the responses of rt. It is for rest.Config.Wrap.
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

// skewError reports that the clocks differ by more than maxSkew.
type skewError struct {
	Behind time.Duration // how much later the API server's clock is
}

// Reason returns the condition's reason.
func (e *skewError) Reason() string { return string(signer.ReasonClockSkew) }

// Error does not contain the difference: the text is a condition's message, which would be
// written again whenever the difference changes.
func (e *skewError) Error() string {
	direction := "behind"
	if e.Behind < 0 {
		direction = "ahead of"
	}
	return fmt.Sprintf("the signer's clock is more than %s %s the API server's: nothing is signed until one of them is corrected", maxSkew, direction)
}
