package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/kubelet"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// Config configures the controller.
type Config struct {
	Allowed    kubelet.Allowed
	Workers    int
	Clock      func() time.Time
	Registerer prometheus.Registerer
}

// byClaim indexes Nodes by name and address, byTenant the pending requests by requester.
const (
	byClaim  = "claim"
	byTenant = "tenant"
)

// Setup adds the controller to the manager. It runs on the leader.
func Setup(mgr manager.Manager, cfg Config) error {
	clientset, err := requests.Clientset(mgr)
	if err != nil {
		return fmt.Errorf("client for requests of kubelets: %w", err)
	}
	nodes, err := facts.NewInformer(mgr, facts.Options[*corev1.Node, *kubelet.Node]{
		Example:    &corev1.Node{},
		Derive:     kubelet.NodeOf,
		Indexers:   map[string]func(*kubelet.Node) []string{byClaim: (*kubelet.Node).Claims},
		LeaderOnly: true,
	})
	if err != nil {
		return fmt.Errorf("cache of Nodes: %w", err)
	}
	informer, err := facts.NewInformer(mgr, facts.Options[*certificatesv1.CertificateSigningRequest, *kubelet.Facts]{
		Example:    &certificatesv1.CertificateSigningRequest{},
		Field:      requests.AddressedTo(kubelet.SignerName),
		Derive:     kubelet.FactsOf,
		Indexers:   map[string]func(*kubelet.Facts) []string{byTenant: func(f *kubelet.Facts) []string { return []string{f.Tenant()} }},
		LeaderOnly: true,
	})
	if err != nil {
		return fmt.Errorf("cache of requests of kubelets: %w", err)
	}
	for _, i := range []manager.Runnable{nodes, informer} {
		if err := mgr.Add(i); err != nil {
			return err
		}
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return err
	}
	c := &Controller{config: cfg, pace: ratelimit.New(kubelet.Rates()), nodes: nodes, answers: clientset.CertificatesV1().CertificateSigningRequests()}
	c.requests = requests.NewFollowed(requests.Config{Workers: cfg.Workers, Pace: c.pace, Clock: cfg.Clock}, informer, mgr.GetEventRecorder("servingcert-signer"), metrics)
	if err := registerWaiting(cfg.Registerer, c.requests.Waiting); err != nil {
		return err
	}
	// As a source, the Nodes are cached before the first request is decided.
	changes := nodes.Source("nodes", func(_ context.Context, q facts.Queue, before, after *kubelet.Node) {
		if after != nil && !after.SameAddresses(before) {
			tenant := kubelet.TenantOf(after.Name)
			c.requests.EnqueueLater(q, tenant, "node", func() []*kubelet.Facts { return informer.ByIndex(byTenant, tenant) })
		}
	})
	ctrl, err := c.requests.ControllerOf(mgr, "kubelet-serving-requests", c, changes)
	if err != nil {
		return err
	}
	return mgr.Add(ctrl)
}
