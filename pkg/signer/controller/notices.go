package controller

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// noticeController emits an event on each Service that begins to request a certificate in a
// namespace without the label. Services that exist when the process begins to lead got their event
// from the previous leader. Only pending events are kept, and limits bounds their number.
type noticeController struct {
	services *Services
	metadata client.Reader // of opted-in Namespaces
	events   events.EventRecorder
	limits   *ratelimit.NoticeLimiter
	clock    func() time.Time
	delay    time.Duration // from a change to its event
}

func newNoticeController(c *Controller) *noticeController {
	return &noticeController{
		services: c.services, metadata: c.metadata, events: c.events, limits: ratelimit.NewNoticeLimiter(),
		clock: c.config.Clock, delay: cmp.Or(c.config.NoticeDelay, signer.NoticeDelay),
	}
}

// add adds the controller to the manager.
func (n *noticeController) add(mgr manager.Manager) error {
	return facts.AddController(mgr, "notices", controller.Options{Reconciler: n}, n.services.Changes("Services", n.serviceChanged))
}

// serviceChanged enqueues a Service that may get an event.
func (n *noticeController) serviceChanged(ctx context.Context, q facts.Queue, before, after *corev1.Service) {
	if !signer.AsksAnew(before, after) {
		return
	}
	if e, err := n.notice(ctx, after); err == nil && e != nil && n.limits.Take(after.Namespace, n.clock()) {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)}, n.delay)
	}
}

// Reconcile emits the event on a Service, if it still applies.
func (n *noticeController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	svc := n.services.Get(request.NamespacedName)
	if svc == nil {
		return reconcile.Result{}, nil
	}
	e, err := n.notice(ctx, svc)
	if err == nil && e != nil {
		emit(n.events, *e)
	}
	return reconcile.Result{}, err
}

// notice returns the event for the Service, or nil.
func (n *noticeController) notice(ctx context.Context, svc *corev1.Service) (*signer.Event, error) {
	err := n.metadata.Get(ctx, types.NamespacedName{Name: svc.Namespace}, facts.Metadata("Namespace"))
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get Namespace %s: %w", svc.Namespace, err)
	}
	return signer.NotOptedInNotice(svc, err == nil), nil
}
