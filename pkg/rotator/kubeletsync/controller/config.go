package controller

import (
	"fmt"
	"time"
)

// Config is how pods are woken.
type Config struct {
	// Enabled has pods woken whose files are to change.
	Enabled bool
	// Rate is how many pods are woken in a second.
	Rate int
	// Delay is how long a new bundle in a namespace is waited for, so that kubelets
	// have it when they are woken.
	Delay time.Duration
	// Retry is how long after a write that failed it is tried again.
	Retry time.Duration
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags.
func DefaultConfig() Config {
	return Config{Enabled: true, Rate: 50, Delay: 100 * time.Millisecond, Retry: 5 * time.Second}
}

// Validate returns an error that says what is wrong and what is allowed.
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
