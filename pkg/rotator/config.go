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
	// VerifyConsumers has the pods dialled that mount an issued Secret.
	VerifyConsumers bool
	// VerifyInterval is how long a pod that serves what it should is left alone.
	VerifyInterval time.Duration
	// PropagationTime is how long a new certificate may take until pods serve it.
	PropagationTime time.Duration
	// ProbeConcurrency is how many pods are dialled at a time, and ProbeTimeout how
	// long one port may take to show its certificate.
	ProbeConcurrency int
	ProbeTimeout     time.Duration
	// ProbePause is the shortest time between two dials of a pod that is about to
	// change: half as much more at the longest.
	ProbePause time.Duration
	// Restarts is how workloads are restarted.
	Restarts RestartConfig
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

		VerifyConsumers:  true,
		VerifyInterval:   time.Hour,
		PropagationTime:  2 * time.Minute,
		ProbeConcurrency: 32,
		ProbeTimeout:     5 * time.Second,
		ProbePause:       10 * time.Second,
		Restarts:         DefaultRestartConfig(),
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
	if err := errors.Join(c.validateProbes(), c.Restarts.validate()); err != nil {
		return err
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

// maxConcurrency keeps the sockets that are open at once below what a process
// commonly may have.
const maxConcurrency = 512

func (c Config) validateProbes() error {
	switch {
	case c.VerifyInterval < time.Second:
		return fmt.Errorf("--verify-interval: %s: must be 1s or more", c.VerifyInterval)
	case c.PropagationTime < time.Second:
		return fmt.Errorf("--propagation-time: %s: must be 1s or more; a kubelet takes up to 92s", c.PropagationTime)
	case c.ProbeConcurrency < 1 || c.ProbeConcurrency > maxConcurrency:
		return fmt.Errorf("--probe-concurrency: %d: must be from 1 to %d", c.ProbeConcurrency, maxConcurrency)
	case c.ProbeTimeout < 10*time.Millisecond || c.ProbeTimeout > time.Minute:
		return fmt.Errorf("--probe-timeout: %s: must be from 10ms to 1m", c.ProbeTimeout)
	case c.ProbePause < time.Millisecond:
		return fmt.Errorf("pause %s between two dials: must be 1ms or more", c.ProbePause)
	}
	return nil
}
