package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/cmd/internal/certfiles"
	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
)

// run serves until cfg.ShutdownDelay after ctx ends.
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
	files := certfiles.New(cfg.CertDir, log)
	options := cfg.Common.ManagerOptions(scheme, "")
	options.Cache = admission.CacheOptions(cfg.Common.Namespace, cfg.OpenShift)
	serving := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // the API server's protocol for webhooks
		GetCertificate: files.GetCertificate,
	}
	var clients *clientCA
	if cfg.ClientCAFile != "" {
		clients = newClientCA(cfg.ClientCAFile, cfg.ClientNames, log)
		clients.demand(serving)
	}
	var ending drain
	options.WebhookServer = newServer(cfg.BindAddress, cfg.Port, serving, &ending, cfg.Common.Bounds("reviews"))
	mgr, err := process.NewManager(ctx, restConfig, options, cfg.OpenShift)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	resources, _ := api.ParseProxyResources(cfg.ProxyResources) // validated before
	decides, err := admission.Setup(ctx, mgr, admission.Config{
		OpenShift: cfg.OpenShift, DefaultMode: api.Mode(cfg.DefaultMode), UnknownPrograms: api.UnknownPrograms(cfg.UnknownPrograms), TrustSource: api.TrustSource(cfg.TrustSource),
		PublicRoots: cfg.PublicRoots, TrustDomain: cfg.TrustDomain, ProxyImage: cfg.ProxyImage, ProxyPullSecrets: cfg.ProxyPullSecrets, ProxyResources: resources, ClusterDomain: cfg.Common.ClusterDomain,
		Metrics: metrics.Registry, Log: ctrl.Log.WithName("review"), Clock: time.Now,
	})
	if err != nil {
		return err
	}
	if err := addWatches(mgr, files, clients); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := cfg.Common.AddMetrics(mgr); err != nil {
		return err
	}
	if err := cfg.Common.AddChecks(mgr, "serving", ending.ready(ready(files, clients, decides))); err != nil {
		return err
	}
	ctx, end := ending.delayed(ctx, cfg.ShutdownDelay, log)
	defer end()
	return mgr.Start(ctx)
}

// addWatches makes the manager reload the files when they change. clients may be nil.
func addWatches(mgr manager.Manager, files *certfiles.Files, clients *clientCA) error {
	if clients != nil {
		if err := mgr.Add(everyReplica{clients.watch}); err != nil {
			return err
		}
	}
	return mgr.Add(files)
}

// everyReplica runs on every replica, leading or not.
type everyReplica struct{ manager.RunnableFunc }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everyReplica) NeedLeaderElection() bool { return false }

// ready returns the readiness check. It succeeds once the server has a certificate, the client CA is
// loaded (if clients is not nil), and the informers have synced: before that, each review would read
// from the API server.
func ready(files *certfiles.Files, clients *clientCA, decides func() error) func(*http.Request) error {
	return func(*http.Request) error {
		if _, err := files.GetCertificate(nil); err != nil {
			return err
		}
		if clients != nil {
			if err := clients.loaded(); err != nil {
				return err
			}
		}
		return decides()
	}
}
