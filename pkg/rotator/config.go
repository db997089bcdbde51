package rotator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Config is all that Setup needs to know.
type Config struct {
	// Namespace is servingcert's own, which is excluded from injection, and where
	// the signer says which namespaces have the conventional Secret.
	Namespace string
	// OpenShift lets Services ask in the words of OpenShift's service-ca too.
	OpenShift bool
	// Workers is how many namespaces are looked at at a time.
	Workers int
	// Delay is how long changes in a namespace are gathered before it is looked
	// at: at most once in that time.
	Delay time.Duration
	// Patience is how long pods are missed before an event tells of it.
	Patience time.Duration
	// MaxEvents is how many workloads of a namespace are told of at once by an
	// event each; one more event tells of the rest.
	MaxEvents int
	// Choose is the webhook's decision.
	Choose Choose
	// Now is the clock.
	Now func() time.Time
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
}

// DefaultConfig returns what a rotator started without flags has. Choose, Now
// and Metrics are the caller's.
func DefaultConfig() Config {
	return Config{
		Namespace: api.DefaultNamespace,
		Workers:   2,
		Delay:     time.Second,
		Patience:  30 * time.Second,
		MaxEvents: 10,
	}
}

// Validate says what is wrong and what is allowed, or nil.
func (c Config) Validate() error {
	if errs := validation.IsDNS1123Label(c.Namespace); len(errs) > 0 {
		return fmt.Errorf("namespace %q: no name of a namespace: %s", c.Namespace, strings.Join(errs, "; "))
	}
	if c.Workers < 1 {
		return fmt.Errorf("--workers: %d: must be 1 or more", c.Workers)
	}
	if c.Delay < 0 {
		return fmt.Errorf("delay %s: must be 0 or more", c.Delay)
	}
	if c.Patience < 0 {
		return fmt.Errorf("patience %s: must be 0 or more", c.Patience)
	}
	if c.MaxEvents < 1 {
		return fmt.Errorf("events %d: must be 1 or more", c.MaxEvents)
	}
	switch {
	case c.Choose == nil:
		return errors.New("nothing says which Secret a pod would get")
	case c.Now == nil:
		return errors.New("no clock")
	case c.Metrics == nil:
		return errors.New("no registry for metrics")
	}
	return nil
}
