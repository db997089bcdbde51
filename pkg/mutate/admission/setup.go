package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// Config is all that Setup needs to know.
type Config struct {
	// OpenShift lets Services ask with OpenShift's annotations too.
	OpenShift bool
	// DefaultMode holds where neither pod nor Service nor namespace sets a mode.
	DefaultMode api.Mode
	// UnknownPrograms is what programs that are not known get unless an annotation requests flags.
	UnknownPrograms api.UnknownPrograms
	// TrustSource is the object from which pods get the CA bundle.
	TrustSource api.TrustSource
	// PublicRoots is true if the rotator writes the public roots too; see choose.Config.
	PublicRoots bool
	// TrustDomain is that of the identities of pods; see choose.Config.
	TrustDomain string
	// ProxyImage is the image of the proxy; empty if pods get none. It and the next two are those
	// of choose.Config.
	ProxyImage       string
	ProxyPullSecrets []string
	ProxyResources   corev1.ResourceRequirements
	// ClusterDomain is the domain of Services.
	ClusterDomain string
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
	// Log is where reviews are logged.
	Log   logr.Logger
	Clock func() time.Time
}

// Validate returns an error if something is missing or invalid.
func (c Config) Validate() error {
	if c.Metrics == nil {
		return errors.New("no registry for metrics")
	}
	if detail := api.CheckMode(c.DefaultMode); detail != "" {
		return fmt.Errorf("default mode %q: %s", c.DefaultMode, detail)
	}
	if detail := api.CheckUnknownPrograms(c.UnknownPrograms); detail != "" {
		return fmt.Errorf("unknown programs %q: %s", c.UnknownPrograms, detail)
	}
	if detail := api.CheckTrustSource(c.TrustSource); detail != "" {
		return fmt.Errorf("trust source %q: %s", c.TrustSource, detail)
	}
	return nil
}

// Setup adds the webhook to mgr's webhook server, at Path, and its informers to
// mgr's cache, which must have the options of CacheOptions. ready returns nil once reviews
// need not read from the API server for what is the same for many.
func Setup(ctx context.Context, mgr manager.Manager, cfg Config) (ready func() error, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if err := StartInformers(ctx, mgr.GetCache()); err != nil {
		return nil, fmt.Errorf("set up the webhook: %w", err)
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	var done atomic.Bool
	if err := mgr.Add(everyReplica{awaitSync(mgr.GetCache(), &done)}); err != nil {
		return nil, fmt.Errorf("set up the webhook: %w", err)
	}
	table := newProgramTable(metrics.programs, cfg.Log)
	if err := table.watch(ctx, mgr.GetCache()); err != nil {
		return nil, fmt.Errorf("set up the webhook: %w", err)
	}
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up the webhook: %w", err)
	}
	keys := newPodKeys(func(ctx context.Context) (string, error) {
		return facts.PodCertificates(ctx, clientset.Discovery().RESTClient())
	}, cfg.Clock, cfg.Log)
	if err := mgr.Add(everyReplica{keys.follow}); err != nil {
		return nil, fmt.Errorf("set up the webhook: %w", err)
	}
	bundle, err := newTrustBundle(ctx, mgr, clientset, cfg)
	if err != nil {
		return nil, err
	}
	lookup := NewLookup(mgr.GetCache(), mgr.GetAPIReader(), done.Load, cfg.OpenShift)
	h := &handler{
		cached: lookup.Cached, live: lookup.Live, elsewhere: lookup.Elsewhere, programs: table.current.Load, podKeys: keys.serves,
		config: choose.Config{
			DefaultMode: cfg.DefaultMode, UnknownPrograms: cfg.UnknownPrograms, TrustBundle: bundle != nil, PublicRoots: cfg.PublicRoots, TrustDomain: cfg.TrustDomain,
			ProxyImage: cfg.ProxyImage, ProxyPullSecrets: cfg.ProxyPullSecrets, ProxyResources: cfg.ProxyResources, ClusterDomain: cfg.ClusterDomain,
		},
		memory: newMemory(), metrics: metrics, clock: cfg.Clock, log: cfg.Log,
	}
	mgr.GetWebhookServer().Register(Path, h.serving())
	return func() error {
		switch {
		case !done.Load():
			return errors.New("the informers have not synced")
		case !keys.answered():
			return errors.New("the API server has not said whether it serves PodCertificateRequests")
		}
		return bundle.ready()
	}, nil
}

// everyReplica runs whether the process leads or not.
type everyReplica struct{ manager.RunnableFunc }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everyReplica) NeedLeaderElection() bool { return false }

func awaitSync(c cache.Cache, synced *atomic.Bool) manager.RunnableFunc {
	return func(ctx context.Context) error {
		if c.WaitForCacheSync(ctx) {
			synced.Store(true)
		}
		return nil
	}
}
