package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// Config is everything that the controller needs from outside. Flags that it shares with
// other controllers are validated there.
type Config struct {
	Limits api.Limits
	// MaxDuration is the longest lifetime of a certificate.
	MaxDuration time.Duration
	Workers     int
	Sign        signer.Sign
	// Authority and AuthorityChanged are those of the signer's controller. The channel
	// must be this controller's own.
	Authority        func() (*pki.Authority, error)
	AuthorityChanged <-chan struct{}
	Clock            func() time.Time
	Registerer       prometheus.Registerer
}
