package controller

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Config is how pods are dialled.
type Config struct {
	// Concurrency is how many pods are dialled at a time.
	Concurrency int
	// Timeout is how long one port may take to show its certificate.
	Timeout time.Duration
	// PodCIDRs are the ranges that pods have their addresses in; none: any that are not
	// loopback, link-local, multicast, broadcast or unspecified.
	PodCIDRs []string
	// APIServer is the API server's addresses, which are not dialled.
	APIServer []netip.Addr
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags.
func DefaultConfig() Config { return Config{Concurrency: 32, Timeout: 5 * time.Second} }

// maxConcurrency keeps the sockets that are open at once below what a process
// commonly may have.
const maxConcurrency = 512

// Validate returns an error that says what is wrong and what is allowed.
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
