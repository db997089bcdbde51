package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// Config is all that Setup needs to know, beside the Cluster.
type Config struct {
	// Patience is how long pods must have been missed before an event reports it.
	Patience time.Duration
	// MaxEvents is how many workloads of a namespace are reported at once by an event
	// each; one more event reports the rest.
	MaxEvents int
	// Choose is the webhook's decision.
	Choose uninjected.Choose
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags. Choose is the caller's.
func DefaultConfig() Config { return Config{Patience: 30 * time.Second, MaxEvents: 10} }

// Validate returns an error that says what is wrong and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Patience < 0:
		return fmt.Errorf("patience before an event reports missed pods: %q: must not be negative", c.Patience)
	case c.MaxEvents < 1:
		return fmt.Errorf("events for missed pods: \"%d\": must be at least 1", c.MaxEvents)
	case c.Choose == nil:
		return errors.New("choice of the Secret that a pod would get: must be set")
	}
	return nil
}
