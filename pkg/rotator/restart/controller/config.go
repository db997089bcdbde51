package controller

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/restart"
)

// Config configures the restarts.
type Config struct {
	// Max is the number of concurrent rollouts in the cluster; 0: nothing is restarted.
	Max int
	// Poll is how long until a rollout is checked again, and Retry until any other held workload
	// is.
	Poll, Retry time.Duration
	// StuckAfter is how long a rollout may make no progress; or its Deployment's progress deadline,
	// if longer.
	StuckAfter time.Duration
	// Patience is how long a workload must have waited before an event reports why.
	Patience time.Duration
	// PlaceFor is how long a rollout counts towards Max.
	PlaceFor time.Duration
}

// DefaultConfig returns the configuration of a rotator without flags.
func DefaultConfig() Config {
	return Config{Max: 3, Poll: 5 * time.Second, Retry: time.Minute, StuckAfter: 10 * time.Minute, Patience: 30 * time.Second, PlaceFor: 30 * time.Minute}
}

// Validate returns an error that states what is wrong and what is allowed.
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
