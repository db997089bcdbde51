package ca

import (
	"errors"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Defaults of Parameters.
const (
	DefaultCADuration = 26280 * time.Hour // three years
	DefaultReissue    = 10 * time.Minute
	// DefaultSoak is longer than kubelets take to update any volume (api.KubeletUpdatesByName).
	DefaultSoak = 7 * time.Minute
	// DefaultRefusalGrace lasts longer than a weekend.
	DefaultRefusalGrace = 72 * time.Hour
)

// Parameters are the operator's settings for the CA.
type Parameters struct {
	// CADuration is the lifetime of a generation that is made here. Default:
	// DefaultCADuration.
	CADuration time.Duration
	// MaxDuration is the longest lifetime of a leaf.
	MaxDuration time.Duration
	// Soak is how long every target must hold the root of a new generation before that
	// generation signs. Default: DefaultSoak.
	Soak time.Duration
	// RefusalGrace is how long a new generation waits for targets in namespaces that
	// refuse its root or do not keep it. Default: DefaultRefusalGrace.
	RefusalGrace time.Duration
	// Reissue is the time over which the leaves of an older generation are
	// replaced. Default: DefaultReissue; none for the CA for clients, whose leaves kubelets replace
	// when they are due.
	Reissue time.Duration
	// Constraints are the names that the CA must permit. With a trust domain it is the CA for clients,
	// which keeps the trust domain that it was made with.
	Constraints pki.Constraints
	// Domain is the cluster domain.
	Domain string
	// ClusterID is the organizational unit of new generations; may be empty. Existing
	// generations keep theirs.
	ClusterID string
}

// WithDefaults returns the parameters with the defaults in place of zero values.
func (p Parameters) WithDefaults() Parameters {
	if p.CADuration == 0 {
		p.CADuration = DefaultCADuration
	}
	if p.Soak == 0 {
		p.Soak = DefaultSoak
	}
	if p.RefusalGrace == 0 {
		p.RefusalGrace = DefaultRefusalGrace
	}
	if p.Reissue == 0 && !p.forClients() {
		p.Reissue = DefaultReissue
	}
	p.Constraints = p.Constraints.Normalize()
	return p
}

// Validate returns an error that names the signer's flag if a parameter is not valid.
// Zero values that have a default are valid.
func (p Parameters) Validate() error {
	p = p.WithDefaults()
	if err := pki.CheckClusterID(p.ClusterID); err != nil {
		return fmt.Errorf("--cluster-id: %w", err)
	}
	if p.MaxDuration <= 0 {
		return fmt.Errorf("--max-duration: %q: must be positive", p.MaxDuration)
	}
	if p.Soak < 0 {
		return fmt.Errorf("--ca-soak: %q: must not be negative", p.Soak)
	}
	if p.RefusalGrace < 0 {
		return fmt.Errorf("--ca-refusal-grace: %q: must be positive", p.RefusalGrace)
	}
	if p.Reissue < 0 {
		return fmt.Errorf("--ca-reissue-window: %q: must not be negative", p.Reissue)
	}
	// A CA is replaced in the last third of its lifetime. That must leave time to
	// distribute the new root and for the old one's longest leaf to expire.
	if p.CADuration/3 < p.MaxDuration+p.Soak {
		return fmt.Errorf("--ca-duration: %q: must be at least three times --max-duration plus --ca-soak: at least %s with --max-duration %s and --ca-soak %s, or --max-duration must be at most %s",
			p.CADuration, 3*(p.MaxDuration+p.Soak), p.MaxDuration, p.Soak, max(0, p.CADuration/3-p.Soak))
	}
	switch {
	case len(p.Constraints.PermittedDNS) == 0:
		return errors.New("CA constraints: no permitted domain: such a CA could sign every name")
	case p.Domain == "":
		return errors.New("CA: no cluster domain")
	}
	return nil
}
