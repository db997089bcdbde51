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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
)

// errSomethingThere is a create that found a Secret which no cache has shown:
// written by another signer, or stripped of its label.
var errSomethingThere = errors.New("a Secret of the name exists already")

// act carries a decision out: first the Secret, then the conditions.
func (c *Controller) act(ctx context.Context, s signer.Situation, d signer.Decision) (reconcile.Result, error) {
	facts, err := c.write(ctx, s, d)
	switch {
	case err == nil && facts != nil:
		d.Verdict.Leaf, d.NextAt = facts.Leaf.Fingerprint, signer.NextChange(s.Now, facts, d.Wanted, s.Authority)
		s.Secret = facts
	case errors.Is(err, errSomethingThere):
		return reconcile.Result{}, err
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// The cache was behind; what it missed is on its way and this is for
		// the case that it comes to nothing.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	case err != nil:
		d.Verdict.Reason, d.Verdict.Message, d.Verdict.Waits = failure(err), err.Error(), true
		c.metrics.failures.WithLabelValues(string(d.Verdict.Reason)).Inc()
	}
	if statusErr := c.settle(ctx, s, d, err); statusErr != nil {
		return reconcile.Result{}, errors.Join(err, statusErr)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("Secret %s: %w", s.Key, err)
	}
	return reconcile.Result{RequeueAfter: c.nextLook(s, d)}, nil
}

// writeError is a certificate that was issued and not written.
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

// failure returns why issuing failed, in one word.
func failure(err error) signer.Reason { return signer.ReasonOf(err, signer.ReasonSignFailed) }

// nextLook returns when the Secret is to be looked at again without a change.
func (c *Controller) nextLook(s signer.Situation, d signer.Decision) time.Duration {
	next := d.NextAt
	if d.Verdict.Waits {
		next = s.Now.Add(signer.WaitForCA)
	}
	if d.Verdict.Leaf != "" && c.secrets.get(s.Key) == nil {
		next = s.Now.Add(writtenFor + time.Second) // see written
	}
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(s.Now), time.Millisecond)
}

// write does what the decision says about the Secret, in one write, and returns
// what is in it then; nil if nothing was to be done. (A Secret that is immutable
// takes two: it is deleted and made again.)
func (c *Controller) write(ctx context.Context, s signer.Situation, d signer.Decision) (*signer.SecretFacts, error) {
	switch d.Action {
	case signer.Create, signer.Reissue, signer.Replace:
		return c.issueInto(ctx, s, d)
	case signer.Repair:
		return c.repair(ctx, s, d)
	default:
		return nil, nil
	}
}

func (c *Controller) issueInto(ctx context.Context, s signer.Situation, d signer.Decision) (*signer.SecretFacts, error) {
	start := c.config.Clock()
	issued, err := signer.Issue(ctx, c.config.Sign, s.Authority, d.Wanted, s.Now)
	if err != nil {
		return nil, err
	}
	var object *metav1.ObjectMeta
	switch d.Action {
	case signer.Reissue:
		object, err = c.patchSecret(ctx, s, signer.SecretPatch(s.Secret, d.Owners, c.config.Instance, signer.SecretAnnotations(s, d, &issued), &issued))
	case signer.Replace:
		object, err = c.replaceSecret(ctx, s, d, issued)
	default:
		object, err = c.createSecret(ctx, s, d, issued, nil)
	}
	if err != nil {
		return nil, writeError{err}
	}
	facts := signer.FactsOfIssued(object, issued, s.Authority)
	facts.Words = signer.WordsAfter(s, d, &issued)
	c.wroteSecret.put(s.Key, object.ResourceVersion, facts, s.Now)
	c.metrics.issued.WithLabelValues(string(d.Reason)).Inc()
	c.metrics.duration.Observe(c.config.Clock().Sub(start).Seconds())
	log.FromContext(ctx).Info("certificate issued", "reason", d.Reason, "why", d.Message, "leaf", facts.Leaf.Fingerprint, "notAfter", facts.Leaf.NotAfter)
	if d.Reason != signer.ReasonFirst {
		for _, svc := range d.Members {
			emit(c.events, signer.Reissued(svc, s.Key.Name, d.Reason, d.Message))
		}
	}
	return facts, nil
}

// createSecret makes the Secret. like, if not nil, is the one that it replaces:
// labels and annotations that others put on it stay.
func (c *Controller) createSecret(ctx context.Context, s signer.Situation, d signer.Decision, issued signer.Issued, like *corev1.Secret) (*metav1.ObjectMeta, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name, OwnerReferences: d.Owners},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM},
	}
	if like != nil {
		secret.Labels, secret.Annotations = like.Labels, like.Annotations
	}
	for key, value := range signer.SecretAnnotations(s, d, &issued) {
		if text, ok := value.(string); ok {
			metav1.SetMetaDataAnnotation(&secret.ObjectMeta, key, text)
		} else {
			delete(secret.Annotations, key)
		}
	}
	metav1.SetMetaDataLabel(&secret.ObjectMeta, api.LabelManagedBy, c.config.Instance)
	err := c.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		return nil, errSomethingThere
	}
	if err != nil {
		return nil, fmt.Errorf("create Secret: %w", err)
	}
	return &secret.ObjectMeta, nil
}

// replaceSecret deletes exactly the Secret that was decided about, and makes it
// anew. Pods that hold the old one keep it; the kubelet mounts the new.
func (c *Controller) replaceSecret(ctx context.Context, s signer.Situation, d signer.Decision, issued signer.Issued) (*metav1.ObjectMeta, error) {
	var old corev1.Secret
	if err := c.live.Get(ctx, s.Key, &old); err != nil {
		return nil, fmt.Errorf("read immutable Secret: %w", err)
	}
	err := c.client.Delete(ctx, &old, client.Preconditions{UID: &s.Secret.UID, ResourceVersion: &s.Secret.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("delete immutable Secret: %w", err)
	}
	return c.createSecret(ctx, s, d, issued, &old)
}

func (c *Controller) repair(ctx context.Context, s signer.Situation, d signer.Decision) (*signer.SecretFacts, error) {
	object, err := c.patchSecret(ctx, s, signer.SecretPatch(s.Secret, d.Owners, c.config.Instance, signer.SecretAnnotations(s, d, nil), nil))
	if err != nil {
		return nil, writeError{err}
	}
	facts := &signer.SecretFacts{
		ObjectMeta: s.Secret.ObjectMeta, Labelled: true, Type: s.Secret.Type, Immutable: s.Secret.Immutable, Leaf: s.Secret.Leaf, RenewedAfter: s.Secret.RenewedAfter,
		Words: signer.WordsAfter(s, d, nil),
	}
	facts.OwnerReferences, facts.ResourceVersion = d.Owners, object.ResourceVersion
	facts.TakeVerification(s.Secret)
	c.wroteSecret.put(s.Key, object.ResourceVersion, facts, s.Now)
	log.FromContext(ctx).Info("Secret repaired", "extraKeys", s.Secret.Extra, "owners", len(d.Owners))
	return facts, nil
}

func (c *Controller) patchSecret(ctx context.Context, s signer.Situation, patch map[string]any) (*metav1.ObjectMeta, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch of Secret: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	if err := c.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, body)); err != nil {
		return nil, fmt.Errorf("patch Secret: %w", err)
	}
	return &secret.ObjectMeta, nil
}

// settle brings the conditions in line and tells of what changed. cause is why
// the Secret could not be written, or nil.
func (c *Controller) settle(ctx context.Context, s signer.Situation, d signer.Decision, cause error) error {
	var errs []error
	for _, change := range signer.Conditions(s, d) {
		has := c.told(change.Service, c.config.Clock())
		written, err := c.setCondition(ctx, change, has, signer.ServiceWords(s, d, change.Service, change.Ready, has.words))
		if err != nil {
			errs = append(errs, err)
		} else if written && change.Ready != nil && change.Ready.Status == metav1.ConditionFalse {
			emit(c.events, signer.NotReady(change.Service, change.Ready))
			if cause == nil && change.Ready.Reason != string(signer.ReasonWaiting) { // or it was counted already
				c.metrics.failures.WithLabelValues(change.Ready.Reason).Inc()
			}
		}
	}
	if cause != nil && s.Secret.Usable(s.Now) {
		for _, svc := range d.Members {
			emit(c.events, signer.RenewalFailed(svc, s.Key.Name, cause.Error()))
		}
	}
	return errors.Join(errs...)
}

// told is what a Service says of its certificate.
type told struct {
	ready *metav1.Condition // nil: none
	words map[string]string // see OpenShiftOnServices
}

// setCondition writes a Service's condition, and the words beside it, if they are
// others than it has, and reports whether it did.
func (c *Controller) setCondition(ctx context.Context, change signer.ConditionChange, has told, words map[string]any) (bool, error) {
	svc, now := change.Service, c.config.Clock()
	patch, err := signer.StatusPatch(svc.UID, has.ready, change.Ready, words, now)
	if err != nil || patch == nil {
		return false, err
	}
	patched := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
	err = c.client.Status().Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil // deleted, or made again: an event of its own
	case err != nil:
		return false, fmt.Errorf("status of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	c.wroteStatus.put(client.ObjectKeyFromObject(svc), patched.ResourceVersion, toldBy(patched), now)
	return true, nil
}

// told returns what the Service says: what this process wrote, if the cache has
// not seen it yet, else what the cache holds.
func (c *Controller) told(svc *corev1.Service, now time.Time) told {
	if ours, behind := c.wroteStatus.newer(client.ObjectKeyFromObject(svc), svc.ResourceVersion, now); behind {
		return ours
	}
	return toldBy(svc)
}

func toldBy(svc *corev1.Service) told {
	return told{api.Condition(svc, api.ConditionReady), signer.Only(svc.Annotations, signer.OpenShiftOnServices)}
}
