package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
)

// run serves until ctx ends.
func run(ctx context.Context, cfg Config) error {
	log := ctrl.Log.WithName("webhook")
	restConfig, err := cfg.Common.RESTConfig("webhook")
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("scheme: %w", err)
	}
	files := newCertFiles(cfg.CertDir, log)
	options := cfg.Common.ManagerOptions(scheme, "")
	options.Cache = admission.CacheOptions(cfg.OpenShift)
	options.WebhookServer = webhook.NewServer(webhook.Options{
		Host: cfg.BindAddress, Port: cfg.Port,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.NextProtos = []string{"http/1.1"} // what the API server speaks to webhooks
			c.GetCertificate = files.GetCertificate
		}},
	})
	mgr, err := manager.New(restConfig, options)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if cfg.OpenShift {
		if err := process.RefuseBesideServiceCA(ctx, mgr.GetAPIReader()); err != nil {
			return err
		}
	}
	var synced atomic.Bool
	if err := serve(ctx, mgr, cfg, synced.Load); err != nil {
		return err
	}
	for _, r := range []manager.RunnableFunc{files.watch, awaitSync(mgr.GetCache(), &synced)} {
		if err := mgr.Add(everyReplica{r}); err != nil {
			return fmt.Errorf("set up: %w", err)
		}
	}
	if err := process.AddChecks(mgr, "serving", ready(files, synced.Load)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// serve puts the handler behind its path.
func serve(ctx context.Context, mgr manager.Manager, cfg Config, synced func() bool) error {
	if err := admission.StartInformers(ctx, mgr.GetCache()); err != nil {
		return err
	}
	counters, err := admission.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	lookup := admission.NewLookup(mgr.GetCache(), mgr.GetAPIReader(), synced, cfg.OpenShift)
	mgr.GetWebhookServer().Register(admission.Path, &admission.Handler{
		Cached: lookup.Cached, Live: lookup.Live,
		Metrics: counters, Log: ctrl.Log.WithName("review"),
	})
	return nil
}

// everyReplica runs whether the process leads or not.
type everyReplica struct{ manager.RunnableFunc }

func (everyReplica) NeedLeaderElection() bool { return false }

func awaitSync(c cache.Cache, synced *atomic.Bool) manager.RunnableFunc {
	return func(ctx context.Context) error {
		if c.WaitForCacheSync(ctx) {
			synced.Store(true)
		}
		return nil
	}
}

// ready says whether a review would be answered well. Before the informers are
// synced it would be answered too, by asking the API server each time.
func ready(files *certFiles, synced func() bool) func(*http.Request) error {
	return func(*http.Request) error {
		if _, err := files.GetCertificate(nil); err != nil {
			return err
		}
		if !synced() {
			return errors.New("the informers are not synced")
		}
		return nil
	}
}
