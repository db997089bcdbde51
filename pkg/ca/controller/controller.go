package controller

import (
	"context"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// afterConflict is the delay before everything is read again after a conflict.
const afterConflict = 50 * time.Millisecond

// Controller keeps the CA. Its exported methods may be called from several
// goroutines, before the manager starts and on replicas that do not lead, too.
type Controller struct {
	cfg    Config
	reader client.Reader // live: no private key is cached
	writer client.Writer
	events eventWriter
	bundle *Bundle // nil: see Config.Bundle

	current atomic.Pointer[snapshot]
	// The fields below are used only by Reconcile, which runs once at a time.
	published *api.CAStatus // what this process last saw or wrote in the status ConfigMap
	remote    remoteCA
	leaves    leafCount
	failing   failing
}

// newController returns a Controller without what Setup takes from the manager, or an
// error if the Config is not valid.
func newController(cfg Config) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Controller{cfg: cfg.withDefaults(), remote: remoteCA{ask: cfg.Remote}, leaves: leafCount{count: cfg.Leaves}}
	c.current.Store(standby())
	return c, nil
}

// Authority returns the CA to sign with now, or a *ca.NotReadyError.
func (c *Controller) Authority() (*pki.Authority, error) {
	s := c.current.Load()
	if problem := s.problemAt(c.cfg.Clock()); problem.Reason != "" {
		return nil, &ca.NotReadyError{Problem: problem}
	}
	return s.authority, nil
}

// Interim returns the authority for the signer's own namespace while the CA cannot sign;
// nil if it can, or if there is no interim CA.
func (c *Controller) Interim() *pki.Authority {
	s := c.current.Load()
	if c.cfg.CheckClock() != nil || s.interim != nil && s.interim.OutOfTime(c.cfg.Clock()).Reason != "" {
		return nil
	}
	return s.interimAuthority
}

// Ready is a readiness check: an error while this process leads and has no CA to
// sign with. A replica that does not lead is ready.
func (c *Controller) Ready(*http.Request) error {
	s := c.current.Load()
	if problem := s.problemAt(c.cfg.Clock()); problem.Reason != "" && !s.standby {
		return &ca.NotReadyError{Problem: problem}
	}
	return nil
}

// Reconcile carries out the next decision about the CA; the request is ignored.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var decision ca.Decision
	found, err := c.gather(ctx)
	if err == nil {
		decision = ca.Decide(found.Situation)
		err = c.act(ctx, found, decision)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		ctrl.LoggerFrom(ctx).V(1).Info("another writer was faster, reading again", "step", decision.Step.Kind)
		return reconcile.Result{RequeueAfter: afterConflict}, nil
	case err != nil:
		c.failed(ctx, found, err)
		return reconcile.Result{}, err
	}
	if c.failing.over() {
		return reconcile.Result{RequeueAfter: afterConflict}, nil // without what was reported
	}
	return reconcile.Result{RequeueAfter: decision.RequeueAfter}, nil
}

// act carries out the decision: at most one write to the CA Secret, or, if that needs
// none, one to the status ConfigMap.
func (c *Controller) act(ctx context.Context, f found, d ca.Decision) error {
	if !d.RaiseFirst {
		c.use(ctx, f, d)
	}
	switch {
	case d.Step.Kind != "":
		return c.take(ctx, f, d)
	case d.Interim.Step != "":
		return c.takeInterim(ctx, f, d.Interim)
	}
	return c.publish(ctx, f, d)
}

// take carries out the decision's step: first everything that can fail, then one write,
// then its event.
func (c *Controller) take(ctx context.Context, f found, d ca.Decision) error {
	next, data, err := d.Apply(f.Situation)
	if err != nil {
		return err
	}
	secret, err := c.writeSecret(ctx, c.cfg.Objects().Secret, f.secret, data)
	if err != nil {
		return err
	}
	c.reportStep(ctx, secret, f, d, next)
	return nil
}

// takeInterim carries out the step of the interim CA.
func (c *Controller) takeInterim(ctx context.Context, f found, i ca.Interim) error {
	data, err := i.Apply(f.Situation)
	if err != nil {
		return err
	}
	if data == nil {
		err = writeError("Secret", c.cfg.Objects().Interim, c.writer.Delete(ctx, f.interim, client.Preconditions{UID: &f.interim.UID, ResourceVersion: &f.interim.ResourceVersion}))
	} else {
		_, err = c.writeSecret(ctx, c.cfg.Objects().Interim, f.interim, data)
	}
	if err != nil {
		return err
	}
	c.reportInterim(ctx, f, i.Step)
	return nil
}

// writeSecret writes the data of a Secret with a CA in one write, which fails if the
// Secret has changed since it was read; nil: it was absent.
func (c *Controller) writeSecret(ctx context.Context, name string, read *corev1.Secret, data map[string][]byte) (*corev1.Secret, error) {
	if read == nil {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.cfg.Namespace, Name: name, Labels: maps.Clone(objectLabels)}, Data: data}
		return secret, writeError("Secret", name, c.writer.Create(ctx, secret))
	}
	secret := read.DeepCopy()
	secret.Data = data
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	maps.Copy(secret.Labels, objectLabels)
	return secret, writeError("Secret", name, c.writer.Update(ctx, secret))
}

func (c *Controller) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.cfg.Namespace, Name: name}
}
