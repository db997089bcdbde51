package controller

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/restart"
)

// Config is how workloads are restarted whose pods ask for it.
type Config struct {
	// Max is how many workloads roll out at a time, in the whole cluster; 0 means
	// that none is restarted.
	Max int
	// Poll is how long until a rollout is looked at again, and Retry until a workload
	// is that waits for something else.
	Poll, Retry time.Duration
	// StuckAfter is how long a rollout may go without progress. The progress deadline
	// of a Deployment may be longer.
	StuckAfter time.Duration
	// Patience is how long a workload must have waited before an event says why.
	Patience time.Duration
	// PlaceFor is how long a rollout that goes on counts towards Max.
	PlaceFor time.Duration
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags.
func DefaultConfig() Config {
	return Config{Max: 3, Poll: 5 * time.Second, Retry: time.Minute, StuckAfter: 10 * time.Minute, Patience: 30 * time.Second, PlaceFor: 30 * time.Minute}
}

// Validate returns an error that says what is wrong and what is allowed.
func (c Config) Validate() error {
	if c.Max < 0 {
		return fmt.Errorf("--max-restarts: \"%d\": must not be negative", c.Max)
	}
	for _, d := range []struct {
		name string
		wait time.Duration
	}{{"poll", c.Poll}, {"retry", c.Retry}, {"time until stuck", c.StuckAfter}, {"time of a place", c.PlaceFor}} {
		if d.wait <= 0 {
			return fmt.Errorf("restarts: %s: %q: must be positive", d.name, d.wait)
		}
	}
	if c.Patience < 0 {
		return fmt.Errorf("restarts: patience: %q: must not be negative", c.Patience)
	}
	return nil
}

func (c Config) limits() restart.Limits {
	return restart.Limits{Max: c.Max, Poll: c.Poll, Retry: c.Retry, StuckAfter: c.StuckAfter, Patience: c.Patience, PlaceFor: c.PlaceFor}
}
