package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// DefaultMaxDuration is the default of the longest lifetime of a pod's certificate, which is
// short since the signer cannot cause an earlier renewal by the kubelet.
const DefaultMaxDuration = 24 * time.Hour

// Config configures the controller.
type Config struct {
	requests.Config
	// Signer is the signer whose requests are answered: api.SignerName or api.ClientSignerName.
	Signer string
	// ProbeInterval is the interval of checks whether the API server serves
	// PodCertificateRequests, until it does.
	ProbeInterval time.Duration
}

// DefaultProbeInterval is the default of Config.ProbeInterval.
const DefaultProbeInterval = time.Minute

// Validate returns an error that names the flag whose value is invalid.
func (c Config) Validate() error {
	switch {
	case c.MaxDuration < time.Hour || c.MaxDuration > 91*24*time.Hour:
		return fmt.Errorf("--pod-max-duration: %q: must be between 1h and 2184h, as Kubernetes requires for pods' certificates", c.MaxDuration)
	case c.MaxDuration%time.Second != 0:
		return errors.New("--pod-max-duration: must be in whole seconds, as the times in certificates are")
	case c.MaxDuration > c.Limits.MaxDuration:
		return fmt.Errorf("--pod-max-duration: %q: must be at most --max-duration (%s)", c.MaxDuration, c.Limits.MaxDuration)
	}
	return nil
}
