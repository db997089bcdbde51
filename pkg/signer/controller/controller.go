package controller

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Controller issues certificates. Setup creates it.
type Controller struct {
	config   Config
	client   client.Client // writes
	live     client.Reader // reads from the API server
	metadata client.Reader // of opted-in Namespaces, and of unmanaged Secrets
	services *Services
	secrets  *facts.Informer[*signer.SecretFacts]
	kept     *keptSecrets
	events   events.EventRecorder
	metrics  *metrics
	pace     *ratelimit.Pace
	roots    roots
	// externals are the Secrets of other issuers that Services name.
	externals externals
	fanOut    *facts.FanOut

	// known is the last CA that was available.
	known atomic.Pointer[pki.Authority]
}

// Pace returns the usage of Config.Rates, for controllers that share the limits.
func (c *Controller) Pace() *ratelimit.Pace { return c.pace }

// Services returns the cache of Services, for other controllers.
func (c *Controller) Services() *Services { return c.services }

// Reconcile brings one Secret, and the conditions of the Services that share it, to the
// desired state.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	t := targetOf(request)
	s, err := c.gather(ctx, t.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !t.withoutSecret {
		return c.decideAndAct(ctx, s)
	}
	unnamed := signer.UnnamedStatusUpdate(c.gatherUnnamed(s))
	if err := c.writeStatuses(ctx, t.Namespace, unnamed); err != nil {
		return reconcile.Result{}, err
	}
	result, err := c.decideAndAct(ctx, s) // refuses the empty name
	if again := c.requeueAfter(s, unnamed); again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter, result.Priority = again, new(ratelimit.PriorityRenewal)
	}
	return result, err
}

func (c *Controller) decideAndAct(ctx context.Context, s signer.Situation) (reconcile.Result, error) {
	s, d := c.decide(s)
	switch gone := s.Secret == nil && s.Unmanaged == nil; {
	case d.External && gone:
		c.externals.set(s.Key, s.External.Absent(s.Key, s.Now))
	case s.External != nil && !d.Wait && !d.External:
		c.externals.set(s.Key, nil)
	}
	if d.Action == signer.ReadLive {
		return c.readLiveAndAct(ctx, s, d.External)
	}
	result, err := c.act(ctx, s, d)
	if errors.Is(err, errExists) {
		return c.readLiveAndAct(ctx, s, false)
	}
	return result, err
}

// readLiveAndAct reads the Secret from the API server, decides again and acts.
func (c *Controller) readLiveAndAct(ctx context.Context, s signer.Situation, external bool) (reconcile.Result, error) {
	var err error
	if external {
		s, err = c.readExternal(ctx, s)
	} else {
		s.Unmanaged, s.External = nil, nil
		if s.Secret, err = c.read(ctx, s.Key); err == nil && s.Secret == nil {
			c.externals.set(s.Key, nil)
		}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	s, d := c.decide(s)
	return c.act(ctx, s, d)
}

// decide returns the decision. If it issues a certificate, decide reserves a slot for it, and the
// decision may become to wait for that slot. The slot is reserved after the decision, because most
// reconciles issue nothing and the number of tokens depends on the decision.
func (c *Controller) decide(s signer.Situation) (signer.Situation, signer.Decision) {
	d := signer.Decide(s, signer.OwnershipOf(s))
	if d.Issues() {
		s.Slot = c.pace.Reserve(s.Key, d.Tokens, s.Now)
		d = d.Limited(s)
	}
	return s, d
}
