package controller

import (
	"fmt"
	"time"
)

// Config is how the report is written.
type Config struct {
	// Interval is the shortest time between two writes.
	Interval time.Duration
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags.
func DefaultConfig() Config { return Config{Interval: 2 * time.Second} }

// Validate returns an error that says what is wrong and what is allowed.
func (c Config) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("interval of the serving status: %q: must be positive", c.Interval)
	}
	return nil
}
