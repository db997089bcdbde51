package controller

import (
	"fmt"
	"time"
)

// Config is how attempts are corrected.
type Config struct {
	// Enabled has attempts withheld whose programs exit because of them, and their pods
	// deleted. If not, that is only told.
	Enabled bool
	// Rate is how many pods are deleted in a second.
	Rate int
	// MinBackoff and MaxBackoff bound the wait before a write that failed is tried
	// again.
	MinBackoff, MaxBackoff time.Duration
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags.
func DefaultConfig() Config {
	return Config{Enabled: true, Rate: 5, MinBackoff: time.Second, MaxBackoff: time.Minute}
}

// Validate returns an error that says what is wrong and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Rate < 1:
		return fmt.Errorf("pods that are deleted in a second for --correct-flags: \"%d\": must be at least 1", c.Rate)
	case c.MinBackoff <= 0 || c.MaxBackoff < c.MinBackoff:
		return fmt.Errorf("backoff of --correct-flags: %q to %q: must be positive, and the second at least the first", c.MinBackoff, c.MaxBackoff)
	}
	return nil
}
