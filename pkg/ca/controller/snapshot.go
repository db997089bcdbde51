package controller

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// snapshot is the outcome of one reconcile: an authority, or why there is none.
type snapshot struct {
	authority *pki.Authority
	problem   api.CAMessage // zero: there is an authority
	state     *ca.State     // of the authority or problem; nil if there is none
	phase     string
	warnings  []api.CAMessage
	standby   bool // nothing was reconciled yet
	// interim is the interim CA, interimAuthority its authority; nil if none is needed.
	interim          *ca.State
	interimAuthority *pki.Authority
}

func standby() *snapshot {
	return &snapshot{standby: true, problem: api.CAMessage{Reason: api.CAPending, Message: "this process does not lead, or has not read the CA yet"}}
}

// problemAt returns why the snapshot cannot sign at now; zero if it can. Time may have
// passed since it was taken, or the clock may have been set.
func (s *snapshot) problemAt(now time.Time) api.CAMessage {
	if s.problem.Reason != "" {
		return s.problem
	}
	return s.state.OutOfTime(now)
}

// use makes Authority return the decision's CA or problem, and reports it once.
func (c *Controller) use(ctx context.Context, f found, d ca.Decision) {
	next := &snapshot{authority: d.Authority, problem: d.Problem, state: d.State, warnings: d.Warnings}
	if d.Status != nil {
		next.phase = d.Status.Phase
	}
	next.interim, next.interimAuthority = d.Interim.State, d.Interim.Authority
	old := c.current.Load() // only this goroutine stores
	if old.interimAuthority != nil && next.interimAuthority != nil && sameAuthority(old.interimAuthority, next.interimAuthority) &&
		old.interimAuthority.SignUntil.Equal(next.interimAuthority.SignUntil) {
		next.interimAuthority = old.interimAuthority
	}
	if next.authority != nil && old.authority != nil && sameAuthority(old.authority, next.authority) &&
		old.authority.SignUntil.Equal(next.authority.SignUntil) {
		next.authority = old.authority // what others derived from it stays valid
	}
	c.current.Store(next)
	c.report(ctx, f, old, next)
	if changed(old, next) {
		c.cfg.OnChange()
	}
}

// changed reports whether the signer must check its certificates again. A raised mark
// alone does not affect them.
func changed(old, next *snapshot) bool {
	if (old.interimAuthority == nil) != (next.interimAuthority == nil) {
		return true
	}
	if old.problem.Reason != "" || next.problem.Reason != "" {
		return old.problem.Reason != next.problem.Reason
	}
	return !sameAuthority(old.authority, next.authority)
}

// sameAuthority reports whether both are equal except for SignUntil.
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

// report logs what has changed in next, and writes its events.
func (c *Controller) report(ctx context.Context, f found, old, next *snapshot) {
	log := ctrl.LoggerFrom(ctx)
	if now := next.problem.Reason; now != old.problem.Reason {
		switch {
		case now == api.CAPending: // about to be over
		case now != "":
			log.Error(&ca.NotReadyError{Problem: next.problem}, "no certificate can be issued", "reason", now, "clock", f.Now)
			c.events.write(f.uid(), corev1.EventTypeWarning, now, next.problem.Message)
		default:
			issuer := next.authority.Certificate
			log.Info("the CA is usable", "subject", issuer.Subject.CommonName, "notAfter", issuer.NotAfter, "signUntil", next.authority.SignUntil)
			if old.problem.Reason != api.CAPending {
				c.events.write(f.uid(), corev1.EventTypeNormal, EventUsable, "certificates are issued again by "+issuer.Subject.CommonName)
			}
		}
	}
	for _, w := range next.warnings {
		if !slices.Contains(old.warnings, w) {
			log.Info("the CA has a warning", "reason", w.Reason, "warning", w.Message)
			c.events.write(f.uid(), corev1.EventTypeWarning, w.Reason, w.Message)
		}
	}
}
