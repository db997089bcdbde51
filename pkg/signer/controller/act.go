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

// errExists is the error of creating a Secret that exists but is not in the cache: another
// signer wrote it, or its label was removed.
var errExists = errors.New("a Secret with this name already exists")

// writeError is an error of a write to a Secret.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// Reason returns the condition's reason.
func (e writeError) Reason() string {
	var status apierrors.APIStatus
	if errors.As(e.error, &status) {
		return string(signer.ReasonWriteRefused)
	}
	return string(signer.ReasonWriteFailed)
}

// act carries out a decision: first the Secret, then the conditions.
func (c *Controller) act(ctx context.Context, s signer.Situation, d signer.Decision) (reconcile.Result, error) {
	var marked error // it does not keep the conditions from being written
	if d.Release != nil {
		marked = c.release(ctx, s, d.Release)
	}
	outcome := c.write(ctx, s, d)
	switch err := outcome.Err; {
	case errors.Is(err, errExists):
		return reconcile.Result{}, err
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// The cache was stale. The event that updates it enqueues the Secret again;
		// the requeue covers the case that there is none.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	}
	pending := issue.Waiting(outcome.Err)
	if pending != nil && pending.Quiet(s.Now) {
		return reconcile.Result{RequeueAfter: pending.Again, Priority: new(ratelimit.PriorityAwaited)}, nil
	}
	update := signer.StatusUpdateOf(s, d, outcome)
	err := errors.Join(c.writeStatuses(ctx, s.Key.Namespace, update), marked)
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

// longestTimer is the longest delay of a requeue, before jitter of up to a half. Timers stop while
// the machine sleeps: a timer of weeks would be late by that time (cert-manager#8464).
const longestTimer = time.Hour

// neverSeen is the delay of the requeue of a Secret that was written but is not in the cache: it
// may have been deleted during a gap in the watch.
const neverSeen = 30 * time.Second

// requeueAfter returns the delay after which the Secret is reconciled without a change,
// zero for never.
func (c *Controller) requeueAfter(s signer.Situation, update signer.StatusUpdate) time.Duration {
	next := update.NextAt
	if update.Leaf != "" && s.External == nil && c.secrets.Get(s.Key) == nil {
		next = s.Now.Add(neverSeen)
	}
	if next.IsZero() {
		return 0
	}
	return min(max(next.Sub(s.Now), time.Millisecond), wait.Jitter(longestTimer, 0.5))
}

// write carries out the action in one write. (An immutable Secret takes two: it is
// deleted and created. A Secret whose formats change, but not its key pair, is read before.)
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

// withPair returns the content with the key pair of the Secret, if it needs the pair. The
// Secret is read live, since no cache holds the key.
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
			return signer.Outcome{Err: fmt.Errorf("sign: %w", err)} // the text of issue.Issue
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

// sign has the CA sign the certificate, by Config.Issue if this process does not have its key.
func (c *Controller) sign(ctx context.Context, s signer.Situation, d signer.Decision) (issue.Issued, error) {
	if c.config.Issue != nil && s.Authority.Key == nil {
		return c.config.Issue(ctx, s.Key, s.Authority, d.Wanted, s.Now)
	}
	return issue.Issue(ctx, c.config.Sign, s.Authority, d.Wanted, s.Now)
}

// writeContent writes the content to the Secret, and returns once the write is in the cache.
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
		return cached, nil // avoids parsing it again
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

// replaceSecret deletes the Secret, if it did not change since the decision, and creates it
// again. Running pods keep the old files until the kubelet mounts the new ones.
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

// release removes the signer's marks from a Secret that another issuer has written. Where it has changed
// since, the event that reports this enqueues it again.
func (c *Controller) release(ctx context.Context, s signer.Situation, marked *signer.SecretFacts) error {
	body, err := json.Marshal(marked.Release())
	if err != nil {
		return fmt.Errorf("encode patch of Secret: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	switch err := c.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, body)); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("remove the marks of this signer from Secret %s: %w", s.Key, err)
	}
	log.FromContext(ctx).Info("another issuer has written the Secret: the marks of this signer are removed")
	return nil
}

// writeStatuses writes the statuses of Services, emits events and counts failures.
func (c *Controller) writeStatuses(ctx context.Context, namespace string, update signer.StatusUpdate) error {
	for _, e := range update.Events {
		emit(c.events, e)
	}
	c.failed(ctx, namespace, update.Failure)
	var errs []error
	for _, status := range update.Services {
		written, err := c.writeStatus(ctx, status)
		if err != nil {
			errs = append(errs, err)
		}
		if !written {
			continue
		}
		c.failed(ctx, namespace, status.Failure)
		if status.NotReady != nil {
			emit(c.events, *status.NotReady)
		}
	}
	return errors.Join(errs...)
}

// writeStatus writes the status of a Service if it changes, and reports whether it did. It
// returns once the write is in the cache.
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
		return false, nil // the deletion enqueues the Secret
	case err != nil:
		return false, fmt.Errorf("status of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	c.services.Await(ctx, patched.ResourceVersion)
	return true, nil
}
