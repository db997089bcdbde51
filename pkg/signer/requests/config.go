package requests

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Config is everything that a controller of requests needs from outside. Flags that it
// shares with other controllers are validated there.
type Config struct {
	Limits api.Limits
	// MaxDuration is the longest lifetime of a certificate.
	MaxDuration time.Duration
	Workers     int
	// Pace limits how often certificates are issued. It is that of the signer's controller, so
	// that a namespace has its rates once, however it asks.
	Pace *ratelimit.Pace
	Sign issue.Sign
	// Cluster is read. One serves both controllers.
	Cluster *Cluster
	// Authority and AuthorityChanged are those of the signer's controller. The channel
	// must be this controller's own.
	Authority        func() (*pki.Authority, error)
	AuthorityChanged <-chan struct{}
	Clock            func() time.Time
	Registerer       prometheus.Registerer
}

// CA returns the CA as it is now, or why there is none, and the limits with the cluster
// domains that it had before.
func (c Config) CA() (ca *pki.Authority, limits api.Limits, err error) {
	limits = c.Limits
	if ca, err = c.Authority(); err == nil {
		limits.FormerDomains = ca.FormerDomains
	}
	return ca, limits, err
}
