package cluster

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Clock estimates the API server's clock. A nil Clock has no skew.
type Clock struct {
	lock   sync.Mutex
	server time.Time // the last date of the API server, received at here
	here   time.Time
}

// Dated returns the configuration of a client whose answers set the clock.
func Dated(cfg *rest.Config) (*rest.Config, *Clock) {
	clock := &Clock{}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return dated{next, clock} })
	return cfg, clock
}

// Skew returns how far the API server's clock is ahead of the local one, to a second; 0 if
// unknown.
func (c *Clock) Skew() time.Duration {
	if c == nil {
		return 0
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.server.IsZero() {
		return 0
	}
	return c.server.Sub(c.here)
}

// Now returns the time of the API server.
func (c *Clock) Now() time.Time { return time.Now().Add(c.Skew()) }

// dated records the dates of responses.
type dated struct {
	next  http.RoundTripper
	clock *Clock
}

// RoundTrip implements http.RoundTripper.
func (d dated) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		d.clock.lock.Lock()
		// A date is in whole seconds, so on average half a second too early.
		d.clock.server, d.clock.here = date.Add(500*time.Millisecond), time.Now()
		d.clock.lock.Unlock()
	}
	return resp, nil
}
