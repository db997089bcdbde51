package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/ca"
)

// Config is what a Controller is made from.
type Config struct {
	// Namespace holds the CA Secret and the status ConfigMap.
	Namespace string
	ca.Parameters
	// Clock returns the time.
	Clock func() time.Time
	// CheckClock returns why the clock cannot be relied on: no new generation is
	// made, and none retires, by such a clock. Nil: it always can.
	CheckClock func() error
	// ManagedExist reports whether any Secret with a managed certificate exists
	// in the cluster, by a live read. It is called when there is no CA, to tell a
	// first start from a loss.
	ManagedExist func(ctx context.Context) (bool, error)
	// Remote returns the remote CA as it is now. It is called about once a minute.
	// Nil: the CA is kept here.
	Remote func(ctx context.Context) (ca.Candidate, error)
	// Leaves returns how many certificates in use each issuer has signed, by the
	// issuer's pki.Fingerprint, or nil if it has not seen them yet. It is called
	// every few seconds while certificates are being replaced. Nil: they are not
	// counted.
	Leaves func() map[string]int
	// OnChange is called after the CA changed: another key signs, another chain is
	// served, another bundle is trusted, or signing became possible or impossible.
	// It must not block. Nil: nobody needs to know.
	OnChange func()
	// Registerer gets the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.Parameters = c.WithDefaults()
	if c.CheckClock == nil {
		c.CheckClock = func() error { return nil }
	}
	if c.OnChange == nil {
		c.OnChange = func() {}
	}
	return c
}

// Validate returns what is wrong, in terms of the signer's flags, or nil. Zero
// values that have a default are valid.
func (c Config) Validate() error {
	if errs := validation.IsDNS1123Label(c.Namespace); len(errs) > 0 {
		return fmt.Errorf("--namespace: %q: not a valid namespace name: %s", c.Namespace, strings.Join(errs, "; "))
	}
	if err := c.Parameters.Validate(); err != nil {
		return err
	}
	switch {
	case c.Clock == nil:
		return errors.New("CA: no clock")
	case c.ManagedExist == nil:
		return errors.New("CA: no way to see whether managed Secrets exist")
	}
	return nil
}
