package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// Config is all that Setup needs to know.
type Config struct {
	// Namespace holds the source and the trust status.
	Namespace string
	// Targets are the kinds that are kept, of those that target.Names lists. Each needs
	// its rights; one that is not served or may not be watched keeps no other from
	// being kept.
	Targets []string
	// OpenShift lets OpenShift's annotations ask for the bundle as ours do.
	OpenShift bool
	// Workers is how many targets of one kind are worked on at a time.
	Workers int
	// MaxBackoff bounds how long a target that refused waits for the next
	// attempt. The first waits are short and double.
	MaxBackoff time.Duration
	// Patience is how long a target may go without holding the bundle, for reasons
	// that ought to pass, before it counts as one that refuses.
	Patience time.Duration
	// StatusDelay is how long changes are gathered before the trust status is
	// written: at most one write in that time.
	StatusDelay time.Duration
	// ProbeInterval is how often the API server is asked whether the targets of a
	// kind can be watched.
	ProbeInterval time.Duration
	// Now is the clock.
	Now func() time.Time
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
}

// DefaultConfig returns what a rotator started without flags has. Now and
// Metrics are the caller's.
func DefaultConfig() Config {
	return Config{
		Namespace:     api.DefaultNamespace,
		Targets:       target.Names(),
		Workers:       4,
		MaxBackoff:    time.Minute,
		Patience:      5 * time.Minute,
		StatusDelay:   time.Second,
		ProbeInterval: time.Minute,
	}
}

// Validate says what is wrong and what is allowed, or nil.
func (c Config) Validate() error {
	if errs := validation.IsDNS1123Label(c.Namespace); len(errs) > 0 {
		return fmt.Errorf("namespace %q: no name of a namespace: %s", c.Namespace, strings.Join(errs, "; "))
	}
	if len(c.Targets) == 0 {
		return fmt.Errorf("--targets: none given: must be some of %s", strings.Join(target.Names(), ", "))
	}
	for _, kind := range c.Targets {
		if !slices.Contains(target.Names(), kind) {
			return fmt.Errorf("--targets: %q is unknown: must be of %s", kind, strings.Join(target.Names(), ", "))
		}
	}
	if c.Workers < 1 {
		return fmt.Errorf("--workers: %d: must be 1 or more", c.Workers)
	}
	if c.MaxBackoff < minBackoff {
		return fmt.Errorf("--max-backoff: %s: must be %s or more", c.MaxBackoff, minBackoff)
	}
	if c.Patience <= 0 {
		return fmt.Errorf("patience %s: must be more than 0", c.Patience)
	}
	if c.StatusDelay < 0 {
		return fmt.Errorf("status delay %s: must be 0 or more", c.StatusDelay)
	}
	if c.ProbeInterval <= 0 {
		return fmt.Errorf("probe interval %s: must be more than 0", c.ProbeInterval)
	}
	if c.Now == nil {
		return errors.New("no clock")
	}
	if c.Metrics == nil {
		return errors.New("no registry for metrics")
	}
	return nil
}
