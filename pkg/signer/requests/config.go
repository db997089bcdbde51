package requests

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Config configures a controller of requests. The other controllers validate the flags that
// they share with it.
type Config struct {
	Limits api.Limits
	// MaxDuration is the longest lifetime of a certificate.
	MaxDuration time.Duration
	Workers     int
	// Pace limits how often certificates are issued. It is shared with the signer's controller, so
	// that a namespace has one limit for all kinds of requests.
	Pace *ratelimit.Pace
	Sign issue.Sign
	// Cluster may be shared by several controllers.
	Cluster *Cluster
	// Authority and AuthorityChanged are as for the signer's controller. Each controller needs
	// a channel of its own.
	Authority        func() (*pki.Authority, error)
	AuthorityChanged <-chan struct{}
	Clock            func() time.Time
	Registerer       prometheus.Registerer
}

// CA returns the current CA, or why there is none, and the limits with the former cluster
// domains.
func (c Config) CA() (ca *pki.Authority, limits api.Limits, err error) {
	limits = c.Limits
	if ca, err = c.Authority(); err == nil {
		limits.FormerDomains = ca.FormerDomains
	}
	return ca, limits, err
}
