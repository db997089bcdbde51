package ca

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// How long until things are looked at again though no watch and no known time
// asks for it.
const (
	// lookAgain catches a clock that was set while the process slept.
	lookAgain = time.Hour
	// lookAgainStopped catches managed Secrets that went away, and a clock that
	// was set right: neither is watched.
	lookAgainStopped = time.Minute
	// atOnce follows a write, or a write that another was quicker with: what is
	// there now is read anew.
	atOnce = 50 * time.Millisecond
)

// Controller keeps the CA. Its methods may be called from several goroutines,
// before the manager starts and on replicas that do not lead, too.
type Controller struct {
	cfg    Config
	reader client.Reader // live: no private key lies in a cache
	writer client.Writer
	events events.EventRecorder

	current  atomic.Pointer[snapshot]
	onChange []func()
	// last is what this process last saw right in the status ConfigMap; touched
	// by the one reconcile that runs at a time.
	last map[string]string
}

// snapshot is the outcome of one reconcile: an authority, or why there is none.
type snapshot struct {
	authority *pki.Authority
	problem   *NotReadyError
	state     *State // of the authority or problem; nil where there is none
	warning   string
	standby   bool // nothing was reconciled yet
}

// New returns a Controller, or what is wrong with its Config. SetupWithManager
// makes it work.
func New(cfg Config) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Controller{cfg: cfg.withDefaults()}
	c.current.Store(&snapshot{standby: true, problem: &NotReadyError{ReasonPending, "this process does not lead, or has not read the CA yet"}})
	return c, nil
}

// OnChange has fn called after the CA changed: another key signs, another chain
// is served, another bundle is trusted, or signing became possible or
// impossible. fn must not block. To be called before the manager starts.
func (c *Controller) OnChange(fn func()) { c.onChange = append(c.onChange, fn) }

// Authority returns the CA to sign with now, or a *NotReadyError.
func (c *Controller) Authority() (*pki.Authority, error) {
	s := c.current.Load()
	if problem := c.problem(s); problem != nil {
		return nil, problem
	}
	return s.authority, nil
}

// problem returns why the snapshot cannot sign now, or nil. Time may have passed
// since it was taken, or the clock been set.
func (c *Controller) problem(s *snapshot) *NotReadyError {
	if s.problem != nil {
		return s.problem
	}
	d, o := Decision{State: s.state}, Observed{Now: c.cfg.Clock()}
	if notYetValid(&d, o) || expired(&d, o) {
		return &NotReadyError{d.Reason, d.Message}
	}
	return nil
}

// Ready is a readiness check: an error while this process leads and has no CA to
// sign with. A replica that does not lead is ready.
func (c *Controller) Ready(*http.Request) error {
	s := c.current.Load()
	if problem := c.problem(s); problem != nil && !s.standby {
		return problem
	}
	return nil
}

// Reconcile looks at the CA and does what is next; the request means nothing.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	found, err := c.gather(ctx)
	if err != nil {
		c.unreadable(err)
		return reconcile.Result{}, err
	}
	d := Decide(found.Observed)
	result, err := c.act(ctx, found, d)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("another was first, reading again", "action", d.Action)
		return reconcile.Result{RequeueAfter: atOnce}, nil
	}
	return result, err
}

// found is what one reconcile works with.
type found struct {
	Observed
	secret *corev1.Secret    // nil if absent
	status *corev1.ConfigMap // nil if absent
}

// gather reads the two objects live: they are small and few, and a cache that is
// behind could make a loss look like a first start.
func (c *Controller) gather(ctx context.Context) (found, error) {
	f := found{Observed: Observed{Wanted: c.cfg.Constraints, MaxDuration: c.cfg.MaxDuration, Now: c.cfg.Clock()}}
	var status corev1.ConfigMap
	switch err := c.reader.Get(ctx, c.key(api.CAStatusName), &status); {
	case err == nil:
		f.status, f.StatusExists = &status, true
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("read ConfigMap %s: %w", api.CAStatusName, err)
	}
	if err := c.readSecret(ctx, &f); err != nil || len(f.Secret) > 0 {
		return f, err
	}
	var err error
	if f.ManagedExist, err = c.cfg.ManagedExist(ctx); err != nil {
		return f, fmt.Errorf("look for managed Secrets: %w", err)
	}
	if f.ManagedExist {
		// Another signer may have made the CA, and issued, between the two reads.
		// Every Secret is issued after its CA was written: if this read does not
		// find the CA either, it is lost.
		return f, c.readSecret(ctx, &f)
	}
	return f, nil
}

// readSecret reads the CA Secret; its absence is no error.
func (c *Controller) readSecret(ctx context.Context, f *found) error {
	var secret corev1.Secret
	switch err := c.reader.Get(ctx, c.key(api.CASecretName), &secret); {
	case err == nil:
		f.secret, f.Secret = &secret, secret.Data
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read Secret %s: %w", api.CASecretName, err)
	}
	return nil
}

// act does what was decided: at most one write to the CA Secret, or, when that
// has nothing to do, one to the status ConfigMap.
func (c *Controller) act(ctx context.Context, f found, d Decision) (reconcile.Result, error) {
	switch d.Action {
	case ActionCreate:
		return afterWrite(c.create(ctx, f))
	case ActionRaise:
		// What is promised already may be signed already; only a mark that is too
		// low for the longest leaf must be raised first.
		if !d.State.signing().UsedUntil.Before(f.Now.Add(c.cfg.MaxDuration)) {
			c.store(ctx, f, d)
		}
		return afterWrite(c.write(ctx, f.secret, *d.Raised))
	}
	c.store(ctx, f, d)
	if err := c.publish(ctx, f, d); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait(d, f.Now)}, nil
}

// afterWrite has the next step decided from what is stored then.
func afterWrite(err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: atOnce}, nil
}

// wait returns how long until the decision is made anew without a cause.
func wait(d Decision, now time.Time) time.Duration {
	longest := lookAgain
	if d.Action == ActionStop {
		longest = lookAgainStopped
	}
	if d.Next.IsZero() {
		return longest
	}
	return min(longest, max(atOnce, d.Next.Sub(now)))
}

// create makes the first CA and writes it where none may be.
func (c *Controller) create(ctx context.Context, f found) error {
	state, err := newState(f.Now, c.cfg.Constraints, c.cfg.CADuration, c.cfg.MaxDuration)
	if err != nil {
		return err
	}
	if f.secret != nil { // someone made it, empty
		err = c.write(ctx, f.secret, state)
	} else {
		err = c.write(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.cfg.Namespace, Name: api.CASecretName}}, state)
	}
	if err != nil {
		return err
	}
	root := state.signing().Root
	ctrl.LoggerFrom(ctx).Info("made the first CA", "subject", root.Subject.CommonName, "notAfter", root.NotAfter)
	c.event("", corev1.EventTypeNormal, EventCreated, fmt.Sprintf("made the first CA: %s, valid until %s", root.Subject.CommonName, clock(root.NotAfter)))
	return nil
}

// write puts the state into the Secret in one write that fails if the Secret is
// no longer as it was read.
func (c *Controller) write(ctx context.Context, secret *corev1.Secret, s State) error {
	data, err := s.SecretData()
	if err != nil {
		return err
	}
	next := secret.DeepCopy()
	next.Data = merged(secret.Data, data)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, objectLabels)
	if next.ResourceVersion == "" {
		err = c.writer.Create(ctx, next)
	} else {
		err = c.writer.Update(ctx, next)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", api.CASecretName, err)
	}
	return nil
}

// unreadable keeps a CA that was read before: the API server being away does not
// make it wrong. Without one it says why there is none.
func (c *Controller) unreadable(err error) {
	old := c.current.Load()
	if old.problem == nil || old.problem.reason != ReasonPending {
		return
	}
	c.current.Store(&snapshot{problem: &NotReadyError{ReasonPending, err.Error()}})
}

func (c *Controller) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.cfg.Namespace, Name: name}
}

func uidOf(secret *corev1.Secret) types.UID {
	if secret == nil {
		return ""
	}
	return secret.UID
}
