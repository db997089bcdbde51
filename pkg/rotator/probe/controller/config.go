package controller

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Config configures the dials of pods.
type Config struct {
	// Concurrency is the number of pods that are dialled concurrently.
	Concurrency int
	// Timeout is the time within which a port must show its certificate.
	Timeout time.Duration
	// PodCIDRs are the address ranges of pods; empty: all addresses except loopback, link-local,
	// multicast, broadcast and unspecified.
	PodCIDRs []string
	// APIServer has the addresses of the API server, which are not dialled.
	APIServer []netip.Addr
}

// DefaultConfig returns the configuration of a rotator without flags.
func DefaultConfig() Config { return Config{Concurrency: 32, Timeout: 5 * time.Second} }

// maxConcurrency keeps the number of open sockets below the usual limit of a process.
const maxConcurrency = 512

// Validate returns an error that states what is wrong and what is allowed.
func (c Config) Validate() error {
	switch {
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return fmt.Errorf("--probe-concurrency: \"%d\": must be from 1 to %d", c.Concurrency, maxConcurrency)
	case c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute:
		return fmt.Errorf("--probe-timeout: %q: must be from 10ms to 1m", c.Timeout)
	}
	if _, err := api.ParseRanges(c.PodCIDRs); err != nil {
		return fmt.Errorf("--pod-cidrs: %w", err)
	}
	return nil
}
