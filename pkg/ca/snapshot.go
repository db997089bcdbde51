package ca

import (
	"context"
	"crypto/x509"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/pkg/pki"
)

// store makes the decision's CA, or its problem, what Authority returns, and
// says so once.
func (c *Controller) store(ctx context.Context, f found, d Decision) {
	next := &snapshot{state: d.State, warning: d.Warning}
	if d.Action == ActionStop {
		next.problem = &NotReadyError{d.Reason, d.Message}
	} else {
		next.authority = d.State.Authority(f.Now)
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

func sameAuthority(a, b *pki.Authority) bool {
	return a.Certificate.Equal(b.Certificate) &&
		slices.EqualFunc(a.Chain, b.Chain, (*x509.Certificate).Equal) &&
		a.Bundle.Hash() == b.Bundle.Hash()
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
		case next.problem != nil:
			log.Error(next.problem, "no certificate can be issued", "clock", f.Now)
			c.event(uid, corev1.EventTypeWarning, now, next.problem.message)
		default:
			root := next.authority.Certificate
			log.Info("the CA is usable", "subject", root.Subject.CommonName, "notAfter", root.NotAfter, "signUntil", next.authority.SignUntil)
			if reason(old) != ReasonPending {
				c.event(uid, corev1.EventTypeNormal, EventUsable, "certificates are issued again by "+root.Subject.CommonName)
			}
		}
	}
	if next.warning != "" && next.warning != old.warning {
		log.Info(next.warning, "reason", ReasonConstraintsChanged)
		c.event(uid, corev1.EventTypeWarning, ReasonConstraintsChanged, next.warning)
	}
}
