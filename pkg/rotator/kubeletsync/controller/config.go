package controller

import (
	"fmt"
	"time"
)

// Config configures how pods are woken.
type Config struct {
	// Enabled: pods are woken.
	Enabled bool
	// Rate is the maximum number of pods per second.
	Rate int
	// Delay is the delay after a new bundle in a namespace, so that kubelets have it when they are
	// woken.
	Delay time.Duration
	// Retry is the wait before a failed write is retried.
	Retry time.Duration
}

// DefaultConfig returns the configuration of a rotator without flags.
func DefaultConfig() Config {
	return Config{Enabled: true, Rate: 50, Delay: 100 * time.Millisecond, Retry: 5 * time.Second}
}

// Validate returns an error that states what is wrong and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Rate < 1:
		return fmt.Errorf("--wake-rate: \"%d\": must be at least 1; --wake=false wakes no pod", c.Rate)
	case c.Delay < 0:
		return fmt.Errorf("delay after a new bundle: %q: must not be negative", c.Delay)
	case c.Retry <= 0:
		return fmt.Errorf("retry of wakes: %q: must be positive", c.Retry)
	}
	return nil
}
