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
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// Config is what Setup needs to know. Flags of the rotator set Namespace
// (--namespace), Targets (--targets), OpenShift (--openshift-compat), BackendTLS
// (--backend-tls-policies), PublicRoots (--public-roots), Workers (--workers) and MaxBackoff
// (--max-backoff).
type Config struct {
	// Namespace holds the source and the trust status.
	Namespace string
	// Targets are the kinds of target that the bundle is kept in, of those that
	// target.Names lists. Each needs its own permissions. A kind that is not served,
	// or may not be watched, does not affect the others.
	Targets []string
	// OpenShift lets OpenShift's annotations request the bundle as ours do.
	OpenShift bool
	// PublicRoots are the public roots that ConfigMaps can ask for beside the bundle; empty for
	// none.
	PublicRoots pki.Bundle
	// BackendTLS makes BackendTLSPolicies of the Gateway API for the Services that ask for one.
	BackendTLS bool
	// Workers is how many targets of each kind are written at a time.
	Workers int
	// MaxBackoff is the longest wait before a failed write is retried. The first
	// waits are short and double.
	MaxBackoff time.Duration
	// Patience is how long a target may be pending before it counts as one that
	// refuses the bundle.
	Patience time.Duration
	// StatusDelay is how long changes are gathered before the trust status is
	// written: at most one write in that time. Many targets prolong it (trust.StatusDelay).
	StatusDelay time.Duration
	// ProbeInterval is how often the API server is asked whether the targets of a
	// kind can be watched.
	ProbeInterval time.Duration
	// Now is the clock.
	Now func() time.Time
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
}

// minBackoff is how long a failed write waits for the second attempt. It doubles
// up to MaxBackoff.
const minBackoff = 100 * time.Millisecond

// DefaultConfig returns the configuration of a rotator without flags. The caller
// sets Now and Metrics.
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

// Validate returns an error that names the flag or the field that is wrong, its
// value, and what is allowed; nil if there is none.
func (c Config) Validate() error {
	if errs := validation.IsDNS1123Label(c.Namespace); len(errs) > 0 {
		return fmt.Errorf("--namespace: %q: not a valid namespace name: %s", c.Namespace, strings.Join(errs, "; "))
	}
	if len(c.Targets) == 0 {
		return fmt.Errorf(`--targets: "": must list at least one of %s`, strings.Join(target.Names(), ", "))
	}
	for _, kind := range c.Targets {
		if !slices.Contains(target.Names(), kind) {
			return fmt.Errorf("--targets: %q: unknown kind of target: must be one of %s", kind, strings.Join(target.Names(), ", "))
		}
	}
	if c.Workers < 1 {
		return fmt.Errorf(`--workers: "%d": must be at least 1`, c.Workers)
	}
	if c.MaxBackoff < minBackoff {
		return fmt.Errorf("--max-backoff: %q: must be at least %s", c.MaxBackoff, minBackoff)
	}
	if c.Patience <= 0 {
		return fmt.Errorf("Config.Patience: %q: must be positive", c.Patience)
	}
	if c.StatusDelay < 0 {
		return fmt.Errorf("Config.StatusDelay: %q: must not be negative", c.StatusDelay)
	}
	if c.ProbeInterval <= 0 {
		return fmt.Errorf("Config.ProbeInterval: %q: must be positive", c.ProbeInterval)
	}
	if c.Now == nil {
		return errors.New("Config.Now: must be set")
	}
	if c.Metrics == nil {
		return errors.New("Config.Metrics: must be set")
	}
	return nil
}
