package ca

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/pkg/pki"
)

// store makes the decision's CA, or its problem, what Authority returns, and
// says so once.
func (c *Controller) store(ctx context.Context, f found, d Decision) {
	next := &snapshot{state: d.State, warnings: d.Warnings}
	if d.State != nil {
		next.phase, _ = d.State.phase(f.Now, c.cfg.Reissue)
	}
	if d.Reason != "" {
		next.problem = &NotReadyError{d.Reason, d.Message}
	} else {
		next.authority = d.State.Authority(f.Now, c.cfg.Domain, c.cfg.Reissue)
	}
	old := c.current.Load() // only this goroutine stores
	if next.authority != nil && old.authority != nil && sameAuthority(old.authority, next.authority) &&
		old.authority.SignUntil.Equal(next.authority.SignUntil) {
		next.authority = old.authority // what others derived from it stays good
	}
	c.current.Store(next)
	c.report(ctx, f, old, next)
	if changed(old, next) {
		for _, fn := range c.onChange {
			fn()
		}
	}
}

// changed reports whether a signer must look at its certificates again. A raised
// mark alone does not matter to any.
func changed(old, next *snapshot) bool {
	if old.problem != nil || next.problem != nil {
		return reason(old) != reason(next)
	}
	return !sameAuthority(old.authority, next.authority)
}

// sameAuthority reports whether both are the same but for SignUntil.
func sameAuthority(a, b *pki.Authority) bool {
	return sameIssuer(a.Issuer, b.Issuer) &&
		slices.EqualFunc(a.Older, b.Older, sameIssuer) &&
		slices.EqualFunc(a.Anchors, b.Anchors, (*x509.Certificate).Equal) &&
		a.Bundle.Hash() == b.Bundle.Hash() &&
		a.Reissue.From.Equal(b.Reissue.From) && a.Reissue.Until.Equal(b.Reissue.Until) &&
		slices.Equal(a.FormerDomains, b.FormerDomains)
}

func sameIssuer(a, b pki.Issuer) bool {
	return a.Certificate.Equal(b.Certificate) &&
		slices.EqualFunc(a.Chain, b.Chain, (*x509.Certificate).Equal) &&
		slices.EqualFunc(a.Ending, b.Ending, (*x509.Certificate).Equal)
}

// reason returns the problem's reason, or nothing.
func reason(s *snapshot) string {
	if s.problem == nil {
		return ""
	}
	return s.problem.reason
}

// report logs and emits what is new in next.
func (c *Controller) report(ctx context.Context, f found, old, next *snapshot) {
	log, uid := ctrl.LoggerFrom(ctx), uidOf(f.secret)
	if now := reason(next); now != reason(old) {
		switch {
		case now == ReasonPending: // about to be over
		case next.problem != nil:
			log.Error(next.problem, "no certificate can be issued", "clock", f.Now)
			c.event(uid, corev1.EventTypeWarning, now, next.problem.message)
		default:
			issuer := next.authority.Certificate
			log.Info("the CA is usable", "subject", issuer.Subject.CommonName, "notAfter", issuer.NotAfter, "signUntil", next.authority.SignUntil)
			if reason(old) != ReasonPending {
				c.event(uid, corev1.EventTypeNormal, EventUsable, "certificates are issued again by "+issuer.Subject.CommonName)
			}
		}
	}
	for _, w := range next.warnings {
		if !slices.Contains(old.warnings, w) {
			log.Info(w.Message, "reason", w.Reason)
			c.event(uid, corev1.EventTypeWarning, w.Reason, w.Message)
		}
	}
}

// took tells of a step after it was written.
func (c *Controller) took(ctx context.Context, f found, secret *corev1.Secret, d Decision, next State) {
	newest, why := next.newest(), d.Step.Why
	log := ctrl.LoggerFrom(ctx).WithValues("step", d.Step.Kind, "why", why, "generation", newest.Number, "subject", newest.Issuer().Subject.CommonName)
	say := func(reason, format string, args ...any) {
		log.Info("the CA took a step", "reason", reason)
		c.event(secret.UID, corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...))
	}
	switch d.Step.Kind {
	case StepFresh:
		say(EventCreated, "%s signs, valid until %s: %s", newest.name(), clock(newest.ends()), why)
	case StepPrepare:
		say(EventPrepared, "%s was made and is published: %s", newest.name(), why)
	case StepAbandon:
		say(EventAbandoned, "%s is forgotten, and has signed nothing: %s", d.State.newest().name(), why)
	case StepTrusted:
		say(EventTrusted, "%s is trusted: %s", newest.name(), why)
	case StepPromote:
		say(EventPromoted, "%s signs now: %s", newest.name(), why)
	case StepRetire:
		say(EventRetired, "older generations that no certificate in use needs left the bundle, or the chain")
	case StepRefuse:
		log.Info("a rotation was refused", "reason", EventRefused)
		c.event(secret.UID, corev1.EventTypeWarning, EventRefused, fmt.Sprintf("rotation %q refused: %s", f.Request.Reason, why))
	}
}
