package controller

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Config configures how pods are dialled to check their certificates.
type Config struct {
	// Verify: pods that mount an issued Secret are dialled.
	Verify bool
	// Interval is how long a pod that serves its certificate is left alone.
	Interval time.Duration
	// PropagationTime is how long a new certificate may take until pods serve it.
	PropagationTime time.Duration
	// Pause is the shortest time between two dials of a pod that is about to change; the longest is
	// 1.5 times as long.
	Pause time.Duration
}

// DefaultConfig returns the configuration of a rotator without flags.
func DefaultConfig() Config {
	return Config{Verify: true, Interval: time.Hour, PropagationTime: 2 * time.Minute, Pause: 10 * time.Second}
}

// Validate returns an error that states what is wrong and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Interval < time.Second:
		return fmt.Errorf("--verify-interval: %q: must be at least 1s", c.Interval)
	case c.PropagationTime < time.Second:
		return fmt.Errorf("--propagation-time: %q: must be at least 1s; a kubelet takes up to 92s", c.PropagationTime)
	case c.Pause < time.Millisecond:
		return fmt.Errorf("pause between two dials of a pod: %q: must be at least 1ms", c.Pause)
	}
	return nil
}

func (c Config) pace() serving.Pace {
	return serving.Pace{Interval: c.Interval, Propagation: c.PropagationTime, Pause: c.Pause}
}
