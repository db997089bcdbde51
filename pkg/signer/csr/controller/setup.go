package controller

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// Retries of what failed.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// byAsking finds the Services of a namespace that ask for a certificate.
const byAsking = "servingcert.csr.asking"

// Setup adds the controller to the manager, whose cache must be that of the signer's
// controller. It runs on the leader.
func Setup(ctx context.Context, mgr manager.Manager, cfg Config) error {
	index := func(o client.Object) []string {
		if svc, ok := o.(*corev1.Service); ok && api.Asks(svc) {
			return []string{"true"}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Service{}, byAsking, index); err != nil {
		return fmt.Errorf("index Services: %w", err)
	}
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("client for CertificateSigningRequests: %w", err)
	}
	requests, err := newCache(clientset.CertificatesV1().RESTClient())
	if err != nil {
		return fmt.Errorf("cache of CertificateSigningRequests: %w", err)
	}
	if err := mgr.Add(requests); err != nil {
		return err
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	c := &Controller{
		config:   cfg,
		requests: requests,
		answers:  clientset.CertificatesV1().CertificateSigningRequests(),
		reviews:  reviews{clientset.AuthorizationV1().SubjectAccessReviews()},
		live:     mgr.GetAPIReader(),
		cache:    mgr.GetCache(),
		events:   mgr.GetEventRecorder("servingcert-signer"),
		metrics:  metrics,
		answered: facts.NewWritten[struct{}](),
		said:     facts.NewSaid(),
	}
	return c.watch(mgr)
}

// newCache watches the requests that are addressed to this signer.
func newCache(c toolscache.Getter) (*facts.Informer[*csr.Request], error) {
	ours := fields.OneTermEqualSelector("spec.signerName", api.SignerName).String()
	return facts.NewInformer(facts.Options[*certificatesv1.CertificateSigningRequest, *csr.Request]{
		Objects:    toolscache.NewFilteredListWatchFromClient(c, "certificatesigningrequests", metav1.NamespaceAll, func(o *metav1.ListOptions) { o.FieldSelector = ours }),
		Example:    &certificatesv1.CertificateSigningRequest{},
		Derive:     csr.FactsOf,
		LeaderOnly: true,
	})
}

// watch adds what calls Reconcile to the manager.
func (c *Controller) watch(mgr manager.Manager) error {
	anyName := true // several managers run in one process of a test
	ctrl, err := controller.New("certificate-signing-requests", mgr, controller.Options{
		SkipNameValidation:      &anyName,
		Reconciler:              c,
		MaxConcurrentReconciles: c.config.Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	namespace := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return c.pending() })
	for _, s := range []source.Source{
		c.requests.Source("CertificateSigningRequests", c.requestChanged),
		source.Kind[client.Object](mgr.GetCache(), &corev1.Service{}, c.serviceHandler()),
		source.Kind[client.Object](mgr.GetCache(), optedIn(), namespace),
		source.Func(c.watchAuthority),
	} {
		if err := ctrl.Watch(s); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

func (c *Controller) requestChanged(_ context.Context, q facts.Queue, before, after *csr.Request) {
	switch {
	case after == nil:
		c.answered.Deleted(client.ObjectKeyFromObject(before), before.ResourceVersion)
		c.said.Forget(before.UID)
	case after.Pending:
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
	default:
		c.said.Forget(after.UID)
	}
}

// serviceHandler enqueues what may have waited for a Service. A change of a Service's
// status alone makes nothing right.
func (c *Controller) serviceHandler() handler.EventHandler {
	changed := func(q facts.Queue, o client.Object) {
		if svc, ok := o.(*corev1.Service); ok && api.Asks(svc) {
			for _, r := range c.pending() {
				q.Add(r)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q facts.Queue) { changed(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q facts.Queue) {
			before, ok := e.ObjectOld.(*corev1.Service)
			after, ok2 := e.ObjectNew.(*corev1.Service)
			if ok && ok2 && equality.Semantic.DeepEqual(before.Spec, after.Spec) && equality.Semantic.DeepEqual(before.Annotations, after.Annotations) {
				return
			}
			changed(q, e.ObjectNew)
		},
	}
}

// watchAuthority enqueues everything that waits whenever the CA changed.
func (c *Controller) watchAuthority(ctx context.Context, q facts.Queue) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.config.AuthorityChanged:
				for _, r := range c.pending() {
					q.Add(r)
				}
			}
		}
	}()
	return nil
}

// pending returns the requests that have no answer.
func (c *Controller) pending() (requests []reconcile.Request) {
	for _, r := range c.requests.List() {
		if r.Pending {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)})
		}
	}
	return requests
}
