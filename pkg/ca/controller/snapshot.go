package controller

import (
	"cmp"
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

const (
	// reportAfter is how long reconciles fail until that is reported, and the least time between
	// two reports: the API server may be restarted, and writing a report causes a reconcile.
	reportAfter = time.Minute
	// maxFailure bounds the text of an error in a report, in characters.
	maxFailure = 400
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

// problem returns why the signer cannot sign with the snapshot now; zero if it can. A clock that
// is wrong is noticed at once, and the CA is read again only later.
func (c *Controller) problem(s *snapshot) api.CAMessage {
	return ca.ByClock(s.problemAt(c.cfg.Clock()), c.cfg.CheckClock())
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
	c.store(ctx, f, c.failing.add(next))
}

// store makes the snapshot the current one, and reports what has changed.
func (c *Controller) store(ctx context.Context, f found, next *snapshot) {
	old := c.current.Load()
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

// failing is a series of failed reconciles; zero if the last one succeeded.
type failing struct {
	told   time.Time // when it was last reported, or else when it began
	report api.CAMessage
}

// note records a failure, which is reported if reconciles have failed for some time.
func (f *failing) note(err error, now time.Time) {
	if f.told.IsZero() {
		f.told = now
	}
	if now.Sub(f.told).Abs() >= reportAfter {
		f.told = now
		f.report = api.CAMessage{Reason: api.CAReconcileFailed, Message: "the CA cannot be read or written: " + api.Shorten(err.Error(), maxFailure)}
	}
}

// over ends the series, and returns whether it was reported.
func (f *failing) over() bool {
	reported := f.report != api.CAMessage{}
	*f = failing{}
	return reported
}

// add returns the snapshot with the report, if any: as its problem if no CA is known, and otherwise
// as a warning.
func (f *failing) add(s *snapshot) *snapshot {
	if f.report == (api.CAMessage{}) {
		return s
	}
	next := *s
	if s.problem.Reason == api.CAPending || s.problem.Reason == api.CAReconcileFailed {
		next.problem = f.report
		return &next
	}
	earlier := func(w api.CAMessage) bool { return w.Reason == api.CAReconcileFailed }
	next.warnings = append(slices.DeleteFunc(slices.Clone(s.warnings), earlier), f.report)
	return &next
}

// failed records that a reconcile failed. A CA that was read before stays in use: it stays valid
// while the API server is unavailable. Without one, it records why there is no CA.
func (c *Controller) failed(ctx context.Context, f found, err error) {
	next := c.current.Load()
	if next.problem.Reason == api.CAPending {
		next = &snapshot{problem: api.CAMessage{Reason: api.CAPending, Message: err.Error()}}
	}
	c.failing.note(err, c.cfg.Clock())
	next = c.failing.add(next)
	c.store(ctx, f, next)
	if c.failing.report == (api.CAMessage{}) || f.status == nil {
		return // creating the status would mean that there was a CA
	}
	status := *cmp.Or(c.published, f.Status)
	status.Problem, status.Warnings = c.problem(next), next.warnings
	if err := c.publish(ctx, f, ca.Decision{Status: &status}); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("cannot report in the status that the CA is not read or written", "error", err.Error())
	}
}
