package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// DefaultWorkers is the number of Secrets that are reconciled at a time: it keeps two
// cores busy and does not overload the API server.
const DefaultWorkers = 8

// DefaultConventionalDelay is the default of Config.ConventionalDelay.
const DefaultConventionalDelay = time.Second

// Config configures the signer's controller.
type Config struct {
	Instance string // value of the managed-by label
	// Namespace is servingcert's own. The signer publishes there which namespaces have the
	// conventional Secret, and reissues its Secrets first after a change of the CA. Empty:
	// it does neither.
	Namespace string
	// ConventionalDelay is how long changes are collected before the namespaces with the
	// conventional Secret are published. 0: DefaultConventionalDelay.
	ConventionalDelay time.Duration
	// NoticeDelay is the time between a Service's request and the event that its namespace does
	// not have the label. 0: signer.NoticeDelay.
	NoticeDelay time.Duration
	// OpenShift also accepts the annotations of OpenShift's service-ca, in every namespace.
	OpenShift bool
	Limits    api.Limits
	Workers   int
	// Rates limit how often certificates are issued. Their usage is kept in memory only:
	// a new leader starts with full limits.
	Rates ratelimit.Rates
	Sign  issue.Sign
	// Issue, if not nil, replaces issue.Issue with Sign for a CA whose key this process does
	// not have. If issuing takes longer than a reconcile, it returns an *issue.PendingError.
	Issue func(ctx context.Context, secret types.NamespacedName, ca *pki.Authority, wanted api.Wanted, now time.Time) (issue.Issued, error)
	// ReissueWindow is the time over which certificates are replaced whose names change
	// because a root that did not permit them was removed.
	ReissueWindow time.Duration
	// Available returns nil if Sign may be called, or the error that it would return at once.
	// It is called before a key is generated. Nil: Sign may always be called.
	Available func(*pki.Authority) error
	// Authority returns the current CA, or why there is none. An error with a method
	// Reason() string sets the condition's reason.
	Authority func() (*pki.Authority, error)
	// Interim returns the CA that signs for Namespace alone while Authority returns an error,
	// or nil. The function may be nil.
	Interim func() *pki.Authority
	// AuthorityChanged receives a value whenever the result of Authority may have
	// changed: every Secret is then reconciled.
	AuthorityChanged <-chan struct{}
	Clock            func() time.Time
	Registerer       prometheus.Registerer
}

// Validate returns an error that names the flag whose value is invalid.
func (c Config) Validate() error {
	if errs := validation.IsValidLabelValue(c.Instance); len(errs) > 0 || c.Instance == "" {
		return fmt.Errorf("--instance: %q: must be a label value: 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends", c.Instance)
	}
	if c.Workers < 1 {
		return fmt.Errorf(`--workers: "%d": must be at least 1`, c.Workers)
	}
	if err := validateRate("secret-issue", c.Rates.Secret); err != nil {
		return err
	}
	if err := validateRate("namespace-reissue", c.Rates.Namespace); err != nil {
		return err
	}
	return validateLimits(c.Limits)
}

// validateRate checks the flags PREFIX-burst and PREFIX-interval.
func validateRate(prefix string, l limit.Limit) error {
	switch {
	case l.Burst < 0:
		return fmt.Errorf(`--%s-burst: "%d": must be at least 1, or 0 for no limit`, prefix, l.Burst)
	case l.Interval < 0 || l.Interval > maxInterval:
		return fmt.Errorf("--%s-interval: %q: must be between 0s and %s", prefix, l.Interval, maxInterval)
	}
	return nil
}

// maxInterval is the longest interval of a limit: certificates are valid for at least an
// hour by default.
const maxInterval = time.Hour

func validateLimits(l api.Limits) error {
	switch {
	case l.MinDuration < 15*time.Minute:
		return fmt.Errorf("--min-duration: %q: must be at least 15m: certificates are backdated by %s and renewed at least 5m before they expire", l.MinDuration, pki.Backdate)
	case l.MaxDuration < l.MinDuration:
		return fmt.Errorf("--max-duration: %q: must be at least --min-duration (%s)", l.MaxDuration, l.MinDuration)
	case l.DefaultDuration < l.MinDuration || l.DefaultDuration > l.MaxDuration:
		return fmt.Errorf("--default-duration: %q: must be between --min-duration (%s) and --max-duration (%s)", l.DefaultDuration, l.MinDuration, l.MaxDuration)
	case l.ClusterIPDuration < 15*time.Minute || l.ClusterIPDuration%time.Second != 0:
		return fmt.Errorf("--cluster-ip-duration: %q: must be at least 15m, in whole seconds", l.ClusterIPDuration)
	case l.DefaultDuration%time.Second != 0 || l.MinDuration%time.Second != 0 || l.MaxDuration%time.Second != 0:
		return errors.New("--default-duration, --min-duration, --max-duration: must be in whole seconds, as the times in certificates are")
	}
	return nil
}
