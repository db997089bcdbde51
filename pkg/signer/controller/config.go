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

// DefaultWorkers is how many Secrets are worked on at a time: enough to keep two
// cores and an API server busy, few enough to leave it to others.
const DefaultWorkers = 8

// DefaultConventionalDelay is the default of Config.ConventionalDelay.
const DefaultConventionalDelay = time.Second

// Config is everything that the signer's controller needs from outside.
type Config struct {
	Instance string // value of the managed-by label
	// Namespace is servingcert's own, in which the signer publishes which namespaces
	// have the conventional Secret, and whose Secrets come first after a change of the
	// CA. Empty: it is not published, and none come first.
	Namespace string
	// ConventionalDelay is how long changes are gathered before that is published: at most one
	// look in that time. 0: DefaultConventionalDelay.
	ConventionalDelay time.Duration
	// NoticeDelay is how long a namespace has to get its label before an event says that it does
	// not have it. 0: signer.NoticeDelay.
	NoticeDelay time.Duration
	// OpenShift lets Services ask with the annotations of OpenShift's service-ca
	// too, in every namespace.
	OpenShift bool
	Limits    api.Limits
	Workers   int
	// Rates limit how often certificates are issued. What was used of them is forgotten
	// with the process: a new leader starts with all of it.
	Rates ratelimit.Rates
	Sign  issue.Sign
	// Issue, if not nil, has a CA without a key here sign for a Secret, in place of issue.Issue
	// with Sign: one that may take for longer than a reconcile, and returns an
	// *issue.PendingError meanwhile.
	Issue func(ctx context.Context, secret types.NamespacedName, ca *pki.Authority, wanted api.Wanted, now time.Time) (issue.Issued, error)
	// ReissueWindow is how long the certificates are replaced over that get other names
	// since a root has gone which did not permit them.
	ReissueWindow time.Duration
	// Available returns nil if Sign may be called, or what it would return at once. It is
	// asked before a key is drawn. Nil: Sign may always be called.
	Available func(*pki.Authority) error
	// Authority returns the CA as it is now, or why there is none. An error with
	// a method Reason() string names the condition's reason.
	Authority func() (*pki.Authority, error)
	// Interim returns what signs for Namespace alone while Authority has an error; nil
	// if nothing does. A nil function never does.
	Interim func() *pki.Authority
	// AuthorityChanged is received from whenever Authority may answer
	// differently: every Secret is then looked at again.
	AuthorityChanged <-chan struct{}
	Clock            func() time.Time
	Registerer       prometheus.Registerer
}

// Validate returns what is wrong with a value that a flag sets, naming the flag.
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

// maxInterval is the longest time between two certificates that a limit may ask for. A
// certificate lives for at least an hour unless the operator allows less.
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
