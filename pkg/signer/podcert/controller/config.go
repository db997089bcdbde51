package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// DefaultMaxDuration is the longest lifetime of a certificate whose key a pod made: the
// kubelet cannot be made to ask for another before its time.
const DefaultMaxDuration = 24 * time.Hour

// Config is everything that the controller needs from outside.
type Config struct {
	requests.Config
	// ProbeInterval is how often it is asked whether the API server serves
	// PodCertificateRequests.
	ProbeInterval time.Duration
}

// DefaultProbeInterval is the default of Config.ProbeInterval.
const DefaultProbeInterval = time.Minute

// Validate returns what is wrong with a value that a flag sets, naming the flag.
func (c Config) Validate() error {
	switch {
	case c.MaxDuration < time.Hour || c.MaxDuration > 91*24*time.Hour:
		return fmt.Errorf("--pod-max-duration: %q: must be between 1h and 2184h, as Kubernetes demands of pods' certificates", c.MaxDuration)
	case c.MaxDuration%time.Second != 0:
		return errors.New("--pod-max-duration: must be in whole seconds, as the times in certificates are")
	case c.MaxDuration > c.Limits.MaxDuration:
		return fmt.Errorf("--pod-max-duration: %q: must be at most --max-duration (%s), for which the CA is kept", c.MaxDuration, c.Limits.MaxDuration)
	}
	return nil
}
