package controller

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/kubelets"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Setup adds the two controllers, which work on the leader.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, dialling Dialling) error {
	ranges, err := api.ParseRanges(cfg.NodeCIDRs)
	if err != nil {
		return err
	}
	nodes, issued, err := caches(mgr)
	if err != nil {
		return err
	}
	l := newLedger()
	if err := c.Metrics.Register(l); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	changed := cluster.NewTrigger("kubelets", settle)
	enqueue := func(node string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Name: node}}
	}
	p := &prober{cluster: c, dialling: dialling, permitted: probe.Addresses{Ranges: ranges}, nodes: nodes, ledger: l, changed: changed}
	err = c.AddController("kubelets", controller.Options{MaxConcurrentReconciles: dialling.Concurrency, Reconciler: p},
		nodes.Source("nodes", func(_ context.Context, q facts.Queue, before, after *kubelets.Node) {
			switch {
			case after.Same(before):
			case after == nil:
				q.Add(enqueue(before.Name))
			default:
				q.Add(enqueue(after.Name))
			}
		}, issued),
		issued.Source("what they were issued", func(_ context.Context, q facts.Queue, _, after *kubelets.Issued) {
			if after != nil && after.Leaf != "" && l.issued(after, c.Now()) {
				q.AddAfter(enqueue(after.Node), kubelets.Grace)
			}
		}))
	if err != nil {
		return err
	}
	r := &reporter{cluster: c, nodes: nodes, ledger: l, writer: mgr.GetClient()}
	return c.AddController("kubelet-status", controller.Options{MaxConcurrentReconciles: 1, Reconciler: r}, changed)
}

func caches(mgr manager.Manager) (*facts.Informer[*kubelets.Node], *facts.Informer[*kubelets.Issued], error) {
	protobuf := rest.CopyConfig(mgr.GetConfig()) // a Node is long
	protobuf.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfigAndClient(protobuf, mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, err
	}
	nodes, err := facts.NewInformer(facts.Options[*corev1.Node, *kubelets.Node]{
		Objects: toolscache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll, fields.Everything()),
		Example: &corev1.Node{}, Derive: kubelets.NodeOf, LeaderOnly: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cache of Nodes: %w", err)
	}
	ofKubelets := fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String()
	issued, err := facts.NewInformer(facts.Options[*certificatesv1.CertificateSigningRequest, *kubelets.Issued]{
		Objects: toolscache.NewFilteredListWatchFromClient(clientset.CertificatesV1().RESTClient(), "certificatesigningrequests", metav1.NamespaceAll,
			func(o *metav1.ListOptions) { o.FieldSelector = ofKubelets }),
		Example: &certificatesv1.CertificateSigningRequest{}, Derive: kubelets.IssuedOf, LeaderOnly: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cache of requests of kubelets: %w", err)
	}
	for _, i := range []manager.Runnable{nodes, issued} {
		if err := mgr.Add(i); err != nil {
			return nil, nil, err
		}
	}
	return nodes, issued, nil
}
