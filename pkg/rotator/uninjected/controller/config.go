package controller

import (
	"fmt"
	"time"
)

// Config is the configuration of the controller.
type Config struct {
	// Patience is how long pods must have been missed before an event reports it.
	Patience time.Duration
	// MaxEvents is the maximum number of workloads of a namespace with an event each; one more
	// event reports the rest.
	MaxEvents int
}

// DefaultConfig returns the configuration of a rotator without flags.
func DefaultConfig() Config { return Config{Patience: 30 * time.Second, MaxEvents: 10} }

// Validate returns an error that states what is wrong and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Patience < 0:
		return fmt.Errorf("patience before an event reports missed pods: %q: must not be negative", c.Patience)
	case c.MaxEvents < 1:
		return fmt.Errorf("events for missed pods: \"%d\": must be at least 1", c.MaxEvents)
	}
	return nil
}
