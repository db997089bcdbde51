package ca

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
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
	// lookAgainStopped catches managed Secrets that went away, a clock that was
	// set right, and a CA elsewhere: none is watched.
	lookAgainStopped = time.Minute
	// lookAgainWaiting follows the trust status, and the certificates that are
	// being replaced.
	lookAgainWaiting = 2 * time.Second
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
	// What follows is touched by the one reconcile that runs at a time.
	last      map[string]string // what this process last saw right in the status ConfigMap
	elsewhere answer            // what the CA elsewhere answered last
	counted   counts            // the certificates in use
}

// snapshot is the outcome of one reconcile: an authority, or why there is none.
type snapshot struct {
	authority *pki.Authority
	problem   *NotReadyError
	state     *State // of the authority or problem; nil where there is none
	phase     string
	warnings  []Warning
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
	if reason, message := s.state.signing().outOfTime(c.cfg.Clock()); reason != "" {
		return &NotReadyError{reason, message}
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
		ctrl.LoggerFrom(ctx).V(1).Info("another was first, reading again", "step", d.Step.Kind)
		return reconcile.Result{RequeueAfter: atOnce}, nil
	}
	return result, err
}

// act does what was decided: at most one write to the CA Secret, or, when that
// has nothing to do, one to the status ConfigMap.
func (c *Controller) act(ctx context.Context, f found, d Decision) (reconcile.Result, error) {
	// What is promised already may be signed already; only a mark that is too low
	// for the longest leaf must be raised first.
	if d.Step.Kind != StepRaise || !d.State.signing().UsedUntil.Before(f.Now.Add(c.cfg.MaxDuration)) {
		c.store(ctx, f, d)
	}
	if d.Step.Kind != "" {
		if err := c.take(ctx, f, d); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: atOnce}, nil // the next is decided from what is stored then
	}
	if err := c.publish(ctx, f, d); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: c.wait(f, d)}, nil
}

// take takes the decision's step: everything that can fail first, then one write,
// then what there is to say.
func (c *Controller) take(ctx context.Context, f found, d Decision) error {
	next, err := d.Apply(f.Observed)
	if err != nil {
		return err
	}
	secret := f.secret
	if secret == nil {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.cfg.Namespace, Name: api.CASecretName}}
	}
	written, err := c.write(ctx, secret, next, d.State == nil)
	if err != nil {
		return err
	}
	c.took(ctx, f, written, d, next)
	return nil
}

// write puts the state into the Secret in one write that fails if the Secret is
// no longer as it was read. What was there and could not be read is kept under
// other keys if keep says so.
func (c *Controller) write(ctx context.Context, secret *corev1.Secret, s State, keep bool) (*corev1.Secret, error) {
	data, err := s.SecretData()
	if err != nil {
		return nil, err
	}
	next := secret.DeepCopy()
	next.Data = merged(secret.Data, data)
	if keep {
		maps.Copy(next.Data, unreadableData(secret.Data, s.Signing))
	}
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
		return nil, fmt.Errorf("write Secret %s: %w", api.CASecretName, err)
	}
	return next, nil
}

// wait returns how long until the decision is made anew without a cause.
func (c *Controller) wait(f found, d Decision) time.Duration {
	longest := lookAgain
	switch {
	case d.State != nil && c.moving(*d.State, f.Now):
		longest = lookAgainWaiting
	case c.uncounted(d), c.behind(f, d):
		longest = countEvery
	case d.Reason != "", f.HasRemote, f.ClockErr != nil, c.last[api.CALeaves] != c.last[api.CAReplaced]:
		longest = lookAgainStopped
	}
	if d.Next.IsZero() {
		return longest
	}
	return min(longest, max(atOnce, d.Next.Sub(f.Now)))
}

// behind reports whether certificates of older generations are about to be
// replaced. One that is not within a minute after its time needs a person.
func (c *Controller) behind(f found, d Decision) bool {
	return d.State != nil && c.last[api.CALeaves] != c.last[api.CAReplaced] &&
		f.Now.Before(d.State.reissueWindow(c.cfg.Reissue).Until.Add(lookAgainStopped))
}

// uncounted reports whether there are certificates to be counted that nobody has
// seen yet.
func (c *Controller) uncounted(d Decision) bool {
	return c.cfg.Leaves != nil && c.counted.by == nil && d.State != nil && len(d.State.Generations) > 1
}

// moving reports whether the phase is one whose progress is followed.
func (c *Controller) moving(s State, now time.Time) bool {
	phase, _ := s.phase(now, c.cfg.Reissue)
	return phase == api.PhaseWait || phase == api.PhaseReissue
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

// unreadableData returns what a corrupt Secret holds, under keys that say which
// generation took its place: nothing that might still be of use is lost.
func unreadableData(data map[string][]byte, by int) map[string][]byte {
	kept := map[string][]byte{}
	for key, value := range data {
		if key == keyState || strings.HasPrefix(key, generationPrefix) {
			kept[fmt.Sprintf("replaced-by-%d-%s", by, key)] = value
		}
	}
	return kept
}
