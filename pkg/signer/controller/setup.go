package controller

import (
	"cmp"
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Setup creates the controller and adds it to the manager, whose cache must have been
// created with CacheOptions.
func Setup(mgr manager.Manager, cfg Config) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	services, err := facts.NewInformer(mgr, serviceOptions(cfg.OpenShift))
	if err != nil {
		return nil, err
	}
	secrets, err := facts.NewInformer(mgr, secretOptions(cfg.Instance))
	if err != nil {
		return nil, err
	}
	for _, informer := range []manager.Runnable{services, secrets} {
		if err := mgr.Add(informer); err != nil {
			return nil, fmt.Errorf("add a cache: %w", err)
		}
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if err := facts.Warm(context.Background(), mgr.GetCache(), facts.Metadata("Namespace"), facts.Metadata("Secret")); err != nil {
		return nil, err
	}
	c := &Controller{
		config:   cfg,
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		metadata: mgr.GetCache(),
		services: &Services{services},
		secrets:  secrets,
		kept:     newKeptSecrets(),
		events:   mgr.GetEventRecorder("servingcert-signer"),
		metrics:  metrics,
		pace:     ratelimit.New(cfg.Rates),
		fanOut:   facts.NewFanOut("signer"),
	}
	secrets.Handle(c.kept.change)
	if err := cfg.Registerer.Register(newExpiry(c)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if cfg.Namespace != "" {
		if err := addConventional(mgr, cfg.Namespace, cmp.Or(cfg.ConventionalDelay, DefaultConventionalDelay)); err != nil {
			return nil, err
		}
	}
	if err := newNoticeController(c).add(mgr); err != nil {
		return nil, err
	}
	return c, c.watch(mgr)
}

func (c *Controller) watch(mgr manager.Manager) error {
	return facts.AddController(mgr, "signer", controller.Options{
		Reconciler:              c,
		MaxConcurrentReconciles: c.config.Workers,
		RateLimiter:             queue.Retries(),
		NewQueue:                queue.ForWorkers(c.config.Workers),
	}, c.sources(mgr)...)
}

// sources returns the controller's watches. At start, the sources of Services and managed Secrets
// enqueue every Secret. Namespaces and unmanaged Secrets would add none, and each of thousands of
// namespaces would cost a pass over all Services, so only their later changes are watched.
func (c *Controller) sources(mgr manager.Manager) []source.Source {
	return []source.Source{
		c.services.Source("Services", c.serviceChanged, c.secrets),
		source.Kind[client.Object](mgr.GetCache(), facts.Metadata("Namespace"), c.namespaceHandler(), facts.Changed()),
		source.Kind[client.Object](mgr.GetCache(), facts.Metadata("Secret"), unmanagedHandler(), facts.Changed()),
		c.secrets.Source("managed Secrets", c.secretChanged),
		source.Func(c.watchAuthority),
		source.Func(c.startFanOut),
	}
}
