package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Config is the configuration that all controllers of the rotator share.
type Config struct {
	// Namespace is servingcert's own, which is excluded from injection. The signer publishes the CA
	// bundle and the list of namespaces with the conventional Secret there.
	Namespace string
	// OpenShift: annotations of OpenShift's service-ca are honored too.
	OpenShift bool
	// Workers is the number of items that a controller processes concurrently.
	Workers int
	// Delay is how long changes are collected before they are processed.
	Delay time.Duration
	// Now is the clock.
	Now func() time.Time
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
}

// DefaultConfig returns the configuration of a rotator without flags. The caller sets Now and
// Metrics.
func DefaultConfig() Config {
	return Config{Namespace: api.DefaultNamespace, Workers: 2, Delay: time.Second}
}

// Validate returns an error that states what is wrong and what is allowed.
func (c Config) Validate() error {
	if errs := validation.IsDNS1123Label(c.Namespace); len(errs) > 0 {
		return fmt.Errorf("namespace: %q: not a valid namespace name: %s", c.Namespace, strings.Join(errs, "; "))
	}
	switch {
	case c.Workers < 1:
		return fmt.Errorf("workers of the rotator's controllers: \"%d\": must be at least 1", c.Workers)
	case c.Delay < 0:
		return fmt.Errorf("delay: %q: must not be negative", c.Delay)
	case c.Now == nil:
		return errors.New("clock: must be set")
	case c.Metrics == nil:
		return errors.New("registry for metrics: must be set")
	}
	return nil
}
