package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

// Reasons of events on the CA Secret, in addition to api.CAProblems and api.CAWarnings
// (both Warning).
const (
	EventCreated   = "CACreated"      // Normal: a CA that does not depend on earlier generations was created
	EventPrepared  = "CAPrepared"     // Normal: the next generation was created
	EventAbandoned = "CAAbandoned"    // Normal: a generation that has not signed is dropped: the remote CA has changed
	EventTrusted   = "CATrusted"      // Normal: every target holds the root of the next generation
	EventPromoted  = "CAPromoted"     // Normal: the next generation signs
	EventRetired   = "CARetired"      // Normal: an older root left the bundle
	EventRefused   = "CARefused"      // Warning: a requested rotation is refused
	EventUsable    = "CAUsable"       // Normal: a problem is resolved
	EventInterim   = "CAInterim"      // Warning: the CA is lost, and an interim CA signs for servingcert's own namespace
	EventRestored  = "StatusRestored" // Normal: someone changed or deleted the status ConfigMap
)

// eventWriter writes events on the CA Secret.
type eventWriter struct {
	recorder events.EventRecorder
	secret   types.NamespacedName
}

// write writes an event on the Secret with the UID, "" if the Secret is absent: the
// recorder gets a reference to the Secret, not an object that holds its data.
func (w eventWriter) write(uid types.UID, eventType, reason, note string) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.secret.Namespace, Name: w.secret.Name, UID: uid}}
	w.recorder.Eventf(secret, nil, eventType, reason, reason, "%s", api.EventNote(note))
}

// reportStep logs a step that was written, and writes its event.
func (c *Controller) reportStep(ctx context.Context, secret *corev1.Secret, f found, d ca.Decision, next ca.State) {
	eventType, reason, note := stepEvent(f, d, next)
	if reason != "" {
		newest := next.Newest()
		ctrl.LoggerFrom(ctx).Info("the CA took a step", "step", d.Step.Kind, "why", d.Step.Why, "reason", reason,
			"generation", newest.Number, "subject", newest.Issuer().Subject.CommonName)
		c.events.write(secret.UID, eventType, reason, note)
	}
}

// stepEvent returns the event of a step; a raised mark has none.
func stepEvent(f found, d ca.Decision, next ca.State) (eventType, reason, note string) {
	newest, why := next.Newest(), d.Step.Why
	eventType = corev1.EventTypeNormal
	switch d.Step.Kind {
	case ca.StepFresh:
		reason, note = EventCreated, fmt.Sprintf("%s signs, valid until %s: %s", newest, newest.Ends().UTC().Format(time.RFC3339), why)
	case ca.StepPrepare:
		reason, note = EventPrepared, fmt.Sprintf("%s was made and is published: %s", newest, why)
	case ca.StepAbandon:
		reason, note = EventAbandoned, fmt.Sprintf("%s is dropped; it has signed nothing: %s", d.State.Newest(), why)
	case ca.StepTrusted:
		reason, note = EventTrusted, fmt.Sprintf("%s is trusted: %s", newest, why)
	case ca.StepPromote:
		reason, note = EventPromoted, fmt.Sprintf("%s signs now: %s", newest, why)
	case ca.StepRetire:
		reason, note = EventRetired, "roots and cross-certificates of older generations that no certificate in use needs were removed"
	case ca.StepRefuse:
		eventType = corev1.EventTypeWarning
		reason, note = EventRefused, fmt.Sprintf("rotation %q refused: %s", f.Request.Reason, why)
	}
	return eventType, reason, note
}

// reportInterim logs a step of the interim CA, and writes its event; a raised mark has
// none.
func (c *Controller) reportInterim(ctx context.Context, f found, step ca.InterimStep) {
	if step == ca.InterimRaise {
		return
	}
	ctrl.LoggerFrom(ctx).Info("the interim CA took a step", "step", step)
	if step == ca.InterimMake {
		c.events.write(f.uid(), corev1.EventTypeWarning, EventInterim, "the CA is lost: an interim CA signs for namespace "+c.cfg.Namespace+" alone, so that the webhook can be called")
	}
}

// reportRestored reports that another writer changed the status ConfigMap.
func (c *Controller) reportRestored(ctx context.Context, f found, did string) {
	ctrl.LoggerFrom(ctx).Info("restored the status ConfigMap after someone changed it", "configMap", c.cfg.Objects().Status, "change", did)
	c.events.write(f.uid(), corev1.EventTypeNormal, EventRestored, fmt.Sprintf("someone %s ConfigMap %s; it was restored", did, c.cfg.Objects().Status))
}
