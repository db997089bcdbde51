package ca

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Defaults of a Config.
const (
	DefaultCADuration = 26280 * time.Hour // three years
	DefaultSoak       = 5 * time.Minute
	DefaultReissue    = 10 * time.Minute
)

// Config is what a Controller is made from.
type Config struct {
	// Namespace holds the CA Secret and the status ConfigMap.
	Namespace string
	// CADuration is the lifetime of a generation of the CA. Default:
	// DefaultCADuration.
	CADuration time.Duration
	// MaxDuration is the longest lifetime of a leaf.
	MaxDuration time.Duration
	// Soak is how long a new generation is known to clients before it signs.
	// Default: DefaultSoak.
	Soak time.Duration
	// Reissue is how long the certificates of an older generation are replaced
	// over. Default: DefaultReissue.
	Reissue time.Duration
	// Constraints are the names that the CA is to permit.
	Constraints pki.Constraints
	// Domain is the cluster domain.
	Domain string
	// Clock returns the time.
	Clock func() time.Time
	// ManagedExist reports whether any Secret with a managed certificate exists
	// in the cluster, by a live read. It is called when there is no CA, to tell a
	// first start from a loss.
	ManagedExist func(ctx context.Context) (bool, error)
	// CheckClock says why the clock is not to be relied on: no new generation is
	// made, and none retires, by such a clock. Nil: it always is.
	CheckClock func() error
	// Remote returns the CA elsewhere as it is now; nil: the CA is here. It is
	// called about once a minute.
	Remote func(ctx context.Context) (Candidate, error)
	// Leaves returns how many certificates in use each issuer has signed, by the
	// issuer's pki.Fingerprint, or nil if it has not seen them yet; nil itself:
	// nobody counts. Called every few seconds while certificates are being replaced.
	Leaves func() map[string]int
}

func (c Config) withDefaults() Config {
	if c.CADuration == 0 {
		c.CADuration = DefaultCADuration
	}
	if c.Soak == 0 {
		c.Soak = DefaultSoak
	}
	if c.Reissue == 0 {
		c.Reissue = DefaultReissue
	}
	if c.CheckClock == nil {
		c.CheckClock = func() error { return nil }
	}
	c.Constraints = c.Constraints.Normalize()
	return c
}

// Validate says what is wrong, in the words of the flags that the values come
// from, or returns nil. Zero values with a default are right.
func (c Config) Validate() error {
	c = c.withDefaults()
	if errs := validation.IsDNS1123Label(c.Namespace); len(errs) > 0 {
		return fmt.Errorf("--namespace: %q: no name of a namespace: %s", c.Namespace, strings.Join(errs, "; "))
	}
	if c.MaxDuration <= 0 {
		return fmt.Errorf("--max-duration: %s: must be more than 0", c.MaxDuration)
	}
	if c.Soak < 0 {
		return fmt.Errorf("--ca-soak: %s: must be 0 or more", c.Soak)
	}
	if c.Reissue < 0 {
		return fmt.Errorf("--ca-reissue-window: %s: must be 0 or more", c.Reissue)
	}
	// In the last third of its life a CA is replaced. That must leave time to
	// bring the new root everywhere and for the old one's longest leaf to end.
	if c.CADuration/3 < c.MaxDuration+c.Soak {
		return fmt.Errorf("--ca-duration: %s: a third of it must hold the longest certificate and the soak of a new CA: must be %s or more with --max-duration %s and a soak of %s, or --max-duration %s or less",
			c.CADuration, 3*(c.MaxDuration+c.Soak), c.MaxDuration, c.Soak, max(0, c.CADuration/3-c.Soak))
	}
	switch {
	case len(c.Constraints.PermittedDNS) == 0:
		return errors.New("CA constraints: no permitted domain: such a CA could sign every name")
	case c.Domain == "":
		return errors.New("CA: no cluster domain")
	case c.Clock == nil:
		return errors.New("CA: no clock")
	case c.ManagedExist == nil:
		return errors.New("CA: no way to see whether managed Secrets exist")
	}
	return nil
}
