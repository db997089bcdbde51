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

// Config configures a Controller.
type Config struct {
	// Namespace holds the CA Secret and the status ConfigMap.
	Namespace string
	ca.Parameters
	// Clock returns the time.
	Clock func() time.Time
	// CheckClock returns an error if the clock is not reliable: then no generation is
	// created or retired. Nil: the clock is not checked.
	CheckClock func() error
	// ManagedExist reports whether any Secret with a managed certificate exists
	// in the cluster, by a live read. It is called when there is no CA, to distinguish
	// a first start from a loss.
	ManagedExist func(ctx context.Context) (bool, error)
	// Remote returns the current remote CA, not one that was determined before since. It is
	// called about once a minute. Nil: the CA is not remote.
	Remote func(ctx context.Context, since time.Time) (ca.Candidate, error)
	// Bundle is the object with the roots that verify clients. Nil: the rotator distributes the roots,
	// and reports who holds them in ConfigMap api.TrustStatusName.
	Bundle *Bundle
	// Leaves returns how many certificates in use each issuer has signed, by the
	// issuer's pki.Fingerprint, or nil if they are not counted yet. It is called
	// every few seconds while certificates are being replaced. Nil: they are not
	// counted.
	Leaves func() map[string]int
	// OnChange is called after the CA changed: another key signs, another chain is
	// served, another bundle is trusted, or signing became possible or impossible.
	// It must not block. May be nil.
	OnChange func()
	// Registerer gets the metrics. Nil: no metrics.
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

// Validate returns an error that names the signer's flag if a value is not valid. Zero
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
