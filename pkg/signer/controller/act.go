package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// errExists is a create that found a Secret which no cache has shown: written by
// another signer, or stripped of its label.
var errExists = errors.New("a Secret with the name exists already")

// writeError is a Secret that could not be written.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// Reason is the condition's.
func (e writeError) Reason() string {
	var status apierrors.APIStatus
	if errors.As(e.error, &status) {
		return string(signer.ReasonWriteRefused)
	}
	return string(signer.ReasonWriteFailed)
}

// act carries out a decision: first the Secret, then the conditions.
func (c *Controller) act(ctx context.Context, s signer.Situation, d signer.Decision) (reconcile.Result, error) {
	outcome := c.write(ctx, s, d)
	switch err := outcome.Err; {
	case errors.Is(err, errExists):
		return reconcile.Result{}, err
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// The cache was behind; what it missed is on its way and this is for
		// the case that it comes to nothing.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	}
	pending := issue.Waiting(outcome.Err)
	if pending != nil && pending.Quiet(s.Now) {
		return reconcile.Result{RequeueAfter: pending.Again, Priority: new(ratelimit.PriorityAwaited)}, nil
	}
	update := signer.StatusUpdateOf(s, d, outcome)
	err := c.writeStatuses(ctx, s.Key.Namespace, update)
	if pending != nil && err == nil {
		return reconcile.Result{RequeueAfter: pending.Again, Priority: new(ratelimit.PriorityAwaited)}, nil
	}
	if outcome.Err != nil {
		err = errors.Join(fmt.Errorf("Secret %s: %w", s.Key, outcome.Err), err)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: c.requeueAfter(s, update), Priority: new(update.Priority())}, nil
}

// longestTimer is after how long a Secret is looked at again at the latest, and up to half as long again. Timers stand
// still while the machine sleeps: one of weeks would be late by that time (cert-manager#8464).
const longestTimer = time.Hour

// neverSeen is after how long a Secret is looked at again that was written and that the cache does not hold: it
// may have been deleted in a gap of the watch.
const neverSeen = 30 * time.Second

// requeueAfter returns when the Secret is to be looked at again without a change,
// zero for never.
func (c *Controller) requeueAfter(s signer.Situation, update signer.StatusUpdate) time.Duration {
	next := update.NextAt
	if update.Leaf != "" && c.secrets.Get(s.Key) == nil {
		next = s.Now.Add(neverSeen)
	}
	if next.IsZero() {
		return 0
	}
	return min(max(next.Sub(s.Now), time.Millisecond), wait.Jitter(longestTimer, 0.5))
}

// write carries out the action in one write. (A Secret that cannot be
// changed takes two: it is deleted and made again. One that gets files of another
// format, and no new pair, is read before.)
func (c *Controller) write(ctx context.Context, s signer.Situation, d signer.Decision) signer.Outcome {
	switch d.Action {
	case signer.Create, signer.Reissue, signer.Replace:
		return c.issue(ctx, s, d)
	case signer.Repair:
		content, err := c.withPair(ctx, s, d.Content)
		if err != nil {
			return signer.Outcome{Err: err}
		}
		secret, err := c.writeContent(ctx, s, d, content)
		if err != nil {
			return signer.Outcome{Err: err}
		}
		log.FromContext(ctx).Info("Secret repaired", "leaf", secret.Leaf.Fingerprint, "owners", len(secret.OwnerReferences))
		return signer.Outcome{Secret: secret}
	default:
		return signer.Outcome{}
	}
}

// withPair returns the content with the pair that the Secret holds, if it needs that.
// No cache has the key.
func (c *Controller) withPair(ctx context.Context, s signer.Situation, content signer.Content) (signer.Content, error) {
	if !content.NeedsPair(s.Secret) {
		return content, nil
	}
	var secret corev1.Secret
	if err := c.live.Get(ctx, s.Key, &secret); err != nil {
		return signer.Content{}, writeError{fmt.Errorf("read Secret: %w", err)}
	}
	return content.WithPair(&secret)
}

func (c *Controller) issue(ctx context.Context, s signer.Situation, d signer.Decision) signer.Outcome {
	start := c.config.Clock()
	if c.config.Available != nil {
		if err := c.config.Available(s.Authority); err != nil {
			return signer.Outcome{Err: fmt.Errorf("sign: %w", err)} // as issue.Issue says it
		}
	}
	issued, err := c.sign(ctx, s, d)
	if issue.Waiting(err) == nil {
		c.pace.Use(s.Key)
	}
	if err != nil {
		return signer.Outcome{Err: err}
	}
	content, err := d.With(s, issued)
	if err != nil {
		return signer.Outcome{Err: err}
	}
	secret, err := c.writeContent(ctx, s, d, content)
	if err != nil {
		return signer.Outcome{Err: err}
	}
	if issued.Stored != nil {
		issued.Stored(ctx)
	}
	c.metrics.issued.WithLabelValues(string(d.Reason)).Inc()
	c.metrics.duration.Observe(c.config.Clock().Sub(start).Seconds())
	log.FromContext(ctx).Info("certificate issued", "reason", d.Reason, "why", d.Message, "leaf", secret.Leaf.Fingerprint, "notAfter", secret.Leaf.NotAfter)
	return signer.Outcome{Secret: secret}
}

// sign has the CA sign, in one go or with patience.
func (c *Controller) sign(ctx context.Context, s signer.Situation, d signer.Decision) (issue.Issued, error) {
	if c.config.Issue != nil && s.Authority.Key == nil {
		return c.config.Issue(ctx, s.Key, s.Authority, d.Wanted, s.Now)
	}
	return issue.Issue(ctx, c.config.Sign, s.Authority, d.Wanted, s.Now)
}

// writeContent makes the Secret hold the content, and returns once the cache has seen it.
func (c *Controller) writeContent(ctx context.Context, s signer.Situation, d signer.Decision, content signer.Content) (*signer.SecretFacts, error) {
	var secret *corev1.Secret
	var err error
	switch d.Action {
	case signer.Create:
		secret, err = c.createSecret(ctx, content.Secret(s.Key, nil))
	case signer.Replace:
		secret, err = c.replaceSecret(ctx, s, content)
	default:
		secret, err = c.patchSecret(ctx, s, content)
	}
	if err != nil {
		return nil, writeError{err}
	}
	c.secrets.Await(ctx, secret.ResourceVersion)
	if cached := c.secrets.Get(s.Key); cached != nil && cached.ResourceVersion == secret.ResourceVersion {
		return cached, nil // nothing is parsed again
	}
	return signer.FactsOf(secret, c.config.Instance), nil
}

func (c *Controller) createSecret(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	err := c.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		return nil, errExists
	}
	if err != nil {
		return nil, fmt.Errorf("create Secret: %w", err)
	}
	return secret, nil
}

// replaceSecret deletes exactly the Secret that was decided about, and makes it
// anew. Pods that hold the old one keep it; the kubelet mounts the new.
func (c *Controller) replaceSecret(ctx context.Context, s signer.Situation, content signer.Content) (*corev1.Secret, error) {
	var old corev1.Secret
	if err := c.live.Get(ctx, s.Key, &old); err != nil {
		return nil, fmt.Errorf("read the Secret to replace: %w", err)
	}
	err := c.client.Delete(ctx, &old, client.Preconditions{UID: &s.Secret.UID, ResourceVersion: &s.Secret.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("delete the Secret to replace: %w", err)
	}
	return c.createSecret(ctx, content.Secret(s.Key, &old))
}

func (c *Controller) patchSecret(ctx context.Context, s signer.Situation, content signer.Content) (*corev1.Secret, error) {
	body, err := json.Marshal(content.Patch(s.Secret))
	if err != nil {
		return nil, fmt.Errorf("encode patch of Secret: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	if err := c.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, fmt.Errorf("patch Secret: %w", err)
	}
	return secret, nil
}

// writeStatuses writes the status of Services of the namespace, emits events and counts
// failures.
func (c *Controller) writeStatuses(ctx context.Context, namespace string, update signer.StatusUpdate) error {
	for _, e := range update.Events {
		emit(c.events, e)
	}
	c.metrics.failed(namespace, update.Failure)
	var errs []error
	for _, status := range update.Services {
		written, err := c.writeStatus(ctx, status)
		if err != nil {
			errs = append(errs, err)
		}
		if !written {
			continue
		}
		c.metrics.failed(namespace, status.Failure)
		if status.NotReady != nil {
			emit(c.events, *status.NotReady)
		}
	}
	return errors.Join(errs...)
}

// writeStatus writes the status of a Service if it changes, and reports whether it did. It
// returns once the cache has seen the write.
func (c *Controller) writeStatus(ctx context.Context, status signer.ServiceStatus) (bool, error) {
	svc := status.Service
	patch, err := state.Patch(svc, api.ConditionReady, status.Ready, status.Annotations, c.config.Clock())
	if err != nil || patch == nil {
		return false, err
	}
	patched := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
	err = c.client.Status().Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err):
		return false, nil // an event of its own
	case err != nil:
		return false, fmt.Errorf("status of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	c.services.Await(ctx, patched.ResourceVersion)
	return true, nil
}
