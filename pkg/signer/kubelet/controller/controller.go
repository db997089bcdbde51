package controller

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/kubelet"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// Controller answers requests of kubelets. Setup creates it.
type Controller struct {
	config   Config
	pace     *ratelimit.Pace
	requests *requests.Followed[*kubelet.Facts]
	nodes    *facts.Informer[*kubelet.Node]
	answers  certificatesclient.CertificateSigningRequestInterface
}

// Reconcile answers one request, or emits an event about what is missing.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := types.NamespacedName{Name: request.Name} // the namespace is the tenant
	return c.requests.Decide(key, func(f *kubelet.Facts) (reconcile.Result, error) { return c.decideAndAct(ctx, f) })
}

func (c *Controller) decideAndAct(ctx context.Context, f *kubelet.Facts) (reconcile.Result, error) {
	object, err := requests.Read(ctx, c.answers, f)
	if object == nil {
		return reconcile.Result{}, err
	}
	s := c.gather(kubelet.RequestOf(object))
	d := kubelet.Decide(s)
	if d.Verdict == kubelet.Approve {
		if until, why, waits := c.pace.Waits(d.Share, s.Now); waits {
			d = s.Limited(until, why)
		}
	}
	if err := c.act(ctx, f, object, d); err != nil {
		return reconcile.Result{}, fmt.Errorf("CertificateSigningRequest %s: %w", f.Name, err)
	}
	if d.NextAt.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: d.NextAt.Sub(s.Now)}, nil
}

// gather collects the situation from the caches.
func (c *Controller) gather(r *kubelet.Request) kubelet.Situation {
	s := kubelet.Situation{Now: c.config.Clock(), Request: r, Allowed: c.config.Allowed, Others: map[string][]string{}}
	name, ok := r.NodeName()
	if !ok {
		return s
	}
	s.Node = c.nodes.Get(types.NamespacedName{Name: name})
	for _, claim := range r.Asked().Claims() {
		for _, node := range c.nodes.ByIndex(byClaim, claim) {
			if node.Name != name {
				s.Others[claim] = append(s.Others[claim], node.Name)
			}
		}
	}
	return s
}

func (c *Controller) act(ctx context.Context, f *kubelet.Facts, object *certificatesv1.CertificateSigningRequest, d kubelet.Decision) error {
	switch d.Verdict {
	case kubelet.Wait:
		c.requests.Waits(f, 1, requests.Regarding(object), d.Reason, d.Message)
	case kubelet.Approve, kubelet.Deny:
		return c.answer(ctx, f, object, d)
	case kubelet.Ignore:
	}
	return nil
}

// answer writes the condition that approves or denies the request, unless the request has changed
// since the decision.
func (c *Controller) answer(ctx context.Context, f *kubelet.Facts, object *certificatesv1.CertificateSigningRequest, d kubelet.Decision) error {
	written, err := requests.Approve(ctx, c.answers, object, kubelet.Approval(d))
	if written == nil {
		return err
	}
	c.requests.Wrote(ctx, written.ResourceVersion)
	if d.Verdict == kubelet.Approve {
		c.requests.Issued(f)
		log.FromContext(ctx).Info("serving certificate of a kubelet approved", "user", object.Spec.Username)
		return nil
	}
	c.requests.Failed(f, requests.Regarding(object), d.Reason, d.Message)
	log.FromContext(ctx).Info("serving certificate of a kubelet denied", "user", object.Spec.Username, "reason", d.Reason)
	return nil
}
