package rotator

import (
	"fmt"
	"time"
)

// RestartConfig is how workloads are restarted whose pods ask for it.
type RestartConfig struct {
	// Max is how many workloads roll out at a time, in the whole cluster; 0 means
	// that none is restarted.
	Max int
	// Poll is how long until a rollout is looked at again, and Retry until a
	// workload is that people have to do something about.
	Poll, Retry time.Duration
	// StuckAfter is how long a rollout may go without progress. A Deployment may
	// have more patience of its own.
	StuckAfter time.Duration
}

// DefaultRestartConfig returns what a rotator started without flags has.
func DefaultRestartConfig() RestartConfig {
	return RestartConfig{Max: 3, Poll: 5 * time.Second, Retry: time.Minute, StuckAfter: 10 * time.Minute}
}

func (c RestartConfig) validate() error {
	switch {
	case c.Max < 0:
		return fmt.Errorf("--max-restarts: %d: must be 0 or more", c.Max)
	case c.Poll <= 0, c.Retry <= 0, c.StuckAfter <= 0:
		return fmt.Errorf("restarts: waits of %s, %s and %s: must be more than 0", c.Poll, c.Retry, c.StuckAfter)
	}
	return nil
}

func (c Config) restartLimits() restartLimits {
	return restartLimits{max: c.Restarts.Max, poll: c.Restarts.Poll, retry: c.Restarts.Retry, stuckAfter: c.Restarts.StuckAfter, patience: c.Patience}
}
