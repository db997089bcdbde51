package controller

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// controllerName names the controller of a signer in logs and metrics.
func controllerName(signer string) string {
	if signer == api.ClientSignerName {
		return "client-certificates"
	}
	return "pod-certificates"
}

// Setup adds the controller to the manager. It runs on the leader.
func Setup(mgr manager.Manager, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	clientset, err := requests.Clientset(mgr)
	if err != nil {
		return fmt.Errorf("client for PodCertificateRequests: %w", err)
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return err
	}
	return mgr.Add(&starter{cfg, mgr, clientset, metrics})
}

// starter starts the controller once the API server serves PodCertificateRequests.
type starter struct {
	config    Config
	mgr       manager.Manager
	clientset kubernetes.Interface
	metrics   *metrics
}

// Start implements manager.Runnable; it runs on the leader until ctx ends.
func (s *starter) Start(ctx context.Context) error {
	served := s.await(ctx)
	if served == nil {
		return nil
	}
	informer, err := served.cache(s.mgr, s.config.Signer)
	if err != nil {
		return fmt.Errorf("cache of PodCertificateRequests: %w", err)
	}
	c := &Controller{
		config:   s.config,
		requests: requests.NewFollowed(s.config.Config, informer, s.mgr.GetEventRecorder("servingcert-signer"), s.metrics.answers),
		answers:  served.client,
	}
	of := func(namespace string) []*podcert.Request { return informer.ByIndex(byPending, namespace) }
	ctrl, err := c.requests.Controller(s.mgr, controllerName(s.config.Signer), c, requests.Affected[*podcert.Request]{
		ByService: func(svc *corev1.Service) []*podcert.Request {
			if s.config.Signer == api.ClientSignerName {
				return nil // an identity does not depend on Services
			}
			return of(svc.Namespace)
		},
		ByNamespace: of,
	})
	if err != nil {
		return err
	}
	s.metrics.served.Set(1)
	log.FromContext(ctx).Info("answering PodCertificateRequests", "version", served.name, "signer", s.config.Signer)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for _, run := range []func(context.Context) error{informer.Start, ctrl.Start} {
		group.Go(func() error {
			defer stop() // if one ends, so does the other
			return run(ctx)
		})
	}
	return group.Wait()
}

// await returns the served version as soon as there is one, nil if ctx ends before.
func (s *starter) await(ctx context.Context) *version {
	for {
		served, err := servedVersion(ctx, s.clientset)
		if served != nil {
			return served
		}
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Info("cannot find out whether the API server serves PodCertificateRequests", "error", err.Error())
		}
		timer := time.NewTimer(s.config.ProbeInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
