package signer

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestDecideWhatAnEarlierIssuerSigned(t *testing.T) {
	l, web := generations(t, 2), service("web")
	issued := issueBy(t, l.At(epoch, 1), wantedBy(web), epoch)
	window := pki.Window{From: epoch.Add(time.Hour), Until: epoch.Add(2 * time.Hour)}
	slot := window.At(issued.Leaf.Raw)
	due := pki.RenewAt(issued.Leaf)
	chain := func(certs ...*x509.Certificate) func(w *scene) {
		return func(w *scene) {
			w.secret.Data["tls.crt"] = pki.EncodeCertificates(append([]*x509.Certificate{issued.Leaf}, certs...)...)
		}
	}
	for name, c := range map[string]struct {
		change  func(w *scene)
		reason  Reason // empty: nothing is to be done
		message string
		next    time.Time
	}{
		"before the window":   {func(*scene) {}, "", "", slot},
		"before its moment":   {func(w *scene) { w.now = slot.Add(-1) }, "", "", slot},
		"at its moment":       {func(w *scene) { w.now = slot }, reasonSucceeded, `signed by "` + l.Roots[0].Subject.CommonName + `", which "` + l.Roots[1].Subject.CommonName + `" has succeeded`, time.Time{}},
		"after the window":    {func(w *scene) { w.now = epoch.Add(3 * time.Hour) }, reasonSucceeded, "", time.Time{}},
		"without a window":    {func(w *scene) { w.ca.Reissue = pki.Window{} }, reasonSucceeded, "", time.Time{}},
		"due before":          {func(w *scene) { w.now, w.ca.Reissue = due, pki.Window{From: due.Add(day)} }, reasonDue, "", time.Time{}},
		"due before, later":   {func(w *scene) { w.ca.Reissue = pki.Window{From: due.Add(day)} }, "", "", due},
		"a chain that is not": {chain(l.Crosses[1]), reasonChainChanged, "not that of this CA, which has 0 certificates", time.Time{}},
		"the root is served":  {chain(l.Roots[0]), reasonChainChanged, "", time.Time{}},
		"not known any more":  {func(w *scene) { w.ca.Older = nil }, reasonOtherCA, "", time.Time{}},
		"longer than wanted": {func(w *scene) { w.services[0] = service("web", api.AnnotationDuration, "24h") },
			reasonDuration, "lifetime is 720h0m0s, must be 24h", time.Time{}},
		"shorter than wanted": {func(w *scene) { w.services[0] = service("web", api.AnnotationDuration, "1000h") }, "", "", slot},
		"other names": {func(w *scene) { w.services[0] = service("web", api.AnnotationExtraDNSNames, "a.web.shop.svc") },
			reasonNames, "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(l.At(epoch, 2), managed(issued, web), web)
			w.ca.Reissue = window
			c.change(w)
			_, d := w.decide()
			assert.Equal(t, c.reason, d.Reason, "%s", d.Message)
			assert.Contains(t, d.Message, c.message)
			assert.Equal(t, c.next, d.NextAt)
			if c.reason == "" {
				assert.Equal(t, Nothing.String(), d.Action.String())
				assert.Equal(t, pki.Fingerprint(issued.Leaf), d.Leaf)
			}
		})
	}
}

// A leaf that ends with its CA is not renewed while that CA signs.
func TestALeafThatEndsWithAnEarlierIssuerIsRenewed(t *testing.T) {
	l, web := generations(t, 2), service("web", api.AnnotationDuration, "2160h")
	issued := issueBy(t, l.At(epoch, 1), wantedBy(web), epoch.Add(20*day))
	require.Equal(t, l.Roots[0].NotAfter, issued.Leaf.NotAfter)
	w := newScene(l.At(epoch, 2), managed(issued, web), web)
	w.ca.Reissue = pki.Window{From: epoch.Add(1000 * day)}
	w.now = pki.RenewAt(issued.Leaf)
	_, d := w.decide()
	assert.Equal(t, reasonDue, d.Reason)
	w.ca = l.At(epoch, 1)
	_, d = w.decide()
	assert.Equal(t, Nothing.String(), d.Action.String(), "another would end then too")
}

// A cross-certificate that is about to expire is not served with new leaves, and earlier leaves are
// replaced during the hour before.
func TestAnEndingCrossReissuesOverAnHour(t *testing.T) {
	l, web := generations(t, 3), service("web", api.AnnotationDuration, "2160h")
	ends := epoch.Add(100 * day)
	before := l.At(ends.Add(-10*day), 3)
	require.Len(t, before.Chain, 2)
	issued := issueBy(t, before, wantedBy(web), ends.Add(-10*day))
	w := newScene(before, managed(issued, web), web)
	at := func(now time.Time) Decision {
		w.now, w.ca = now, l.At(now, 3)
		_, d := w.decide()
		return d
	}
	require.Equal(t, Nothing, at(ends.Add(-9*day)).Action)
	d := at(ends.Add(-2*time.Hour + time.Second))
	require.Len(t, w.ca.Chain, 1)
	slot := w.ca.Shorten.At(issued.Leaf.Raw)
	require.Equal(t, []any{Nothing, slot}, []any{d.Action, d.NextAt})
	require.Equal(t, Nothing, at(slot.Add(-time.Second)).Action)
	d = at(slot)
	require.Equal(t, reasonChainChanged, d.Reason)
	require.Contains(t, d.Message, "about to expire")
	require.Equal(t, reasonChainChanged, at(ends.Add(day)).Reason)

	fresh := issueBy(t, w.ca, wantedBy(web), w.now)
	w.secret = managed(fresh, web)
	_, d = w.decide()
	require.Equal(t, Nothing.String(), d.Action.String(), "the shorter chain is good")
	w.secret.Data["tls.crt"] = pki.EncodeCertificates(fresh.Leaf)
	_, d = w.decide()
	require.Equal(t, reasonChainChanged, d.Reason, "none is not")
}

// A remote CA may get a new certificate for the same key: the issuer is the one of the two that the
// chain is for.
func TestTwoIssuersWithOneKey(t *testing.T) {
	l, web := generations(t, 2), service("web")
	older, newer := l.Issuer(2, epoch), l.Issuer(2, epoch)
	newer.Chain = nil
	ca := l.At(epoch, 2)
	ca.Issuer, ca.Older = newer, []pki.Issuer{older}
	ca.Anchors = l.Roots[1:]
	issued := issueBy(t, l.At(epoch, 2), wantedBy(web), epoch)
	f := FactsOf(managed(issued, web), api.DefaultInstance)
	assert.Same(t, &ca.Older[0], f.SignedBy(ca))
	f = FactsOf(managed(issueBy(t, ca, wantedBy(web), epoch), web), api.DefaultInstance)
	assert.Same(t, &ca.Issuer, f.SignedBy(ca))
	ca.Older[0].Chain = ca.Older[0].Chain[:0:0]
	assert.Same(t, &ca.Issuer, FactsOf(managed(issued, web), api.DefaultInstance).SignedBy(ca), "without one that fits, the first")
}

// The issuer's name must match too: verifiers find the issuer by it.
func TestALeafThatNamesAnotherIssuer(t *testing.T) {
	ca, web := testCA(t), service("web")
	renamed := *ca
	certificate := *ca.Certificate
	certificate.Subject.CommonName, certificate.RawSubject = "another", nil
	renamed.Certificate = &certificate
	leaf := signed(t, ca, func(_ *x509.Certificate, by *pki.Authority) { *by = renamed })
	assert.Nil(t, FactsOf(managed(leaf, web), api.DefaultInstance).SignedBy(ca))
}

// Pacing: a leaf of any generation is replaced at its own time and not before, by one of the signing
// generation that is valid.
func TestALeafIsReplacedAtItsMomentAndNotBefore(t *testing.T) {
	l, web := generations(t, 4), service("web")
	rapid.Check(t, func(t *rapid.T) {
		signing := rapid.IntRange(1, 4).Draw(t, "signing")
		by := rapid.IntRange(1, signing).Draw(t, "signed by")
		issuedAt := epoch.Add(time.Duration(rapid.IntRange(0, 60*24).Draw(t, "issued")) * time.Hour)
		issued := issueBy(t, l.At(issuedAt, by), wantedBy(web), issuedAt)
		w := newScene(nil, managed(issued, web), web)
		w.now = issuedAt.Add(time.Duration(rapid.IntRange(0, 20*24*60).Draw(t, "minutes later")) * time.Minute)
		w.ca = l.At(w.now, signing)
		w.ca.Reissue.From = issuedAt.Add(time.Duration(rapid.IntRange(-100, 600).Draw(t, "window")) * time.Hour)
		w.ca.Reissue.Until = w.ca.Reissue.From.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "length")) * time.Minute)
		issuer := l.Issuer(by, w.now)
		tail := rapid.IntRange(0, len(issuer.Ending)).Draw(t, "served of what is ending")
		served := slices.Concat([]*x509.Certificate{issued.Leaf}, issuer.Chain, issuer.Ending[:tail])
		w.secret.Data["tls.crt"] = pki.EncodeCertificates(served...)

		slot, shorten, due := w.ca.Reissue.At(issued.Leaf.Raw), issuer.Shorten.At(issued.Leaf.Raw), pki.RenewAt(issued.Leaf)
		s, d := w.decide()
		switch {
		case !w.now.Before(due):
			require.Equal(t, reasonDue, d.Reason)
		case by < signing && !w.now.Before(slot):
			require.Equal(t, reasonSucceeded, d.Reason)
		case tail > 0 && !w.now.Before(shorten):
			require.Equal(t, reasonChainChanged, d.Reason)
		default:
			require.Equal(t, Nothing, d.Action, "%s: %s", d.Reason, d.Message)
			next := due
			if tail > 0 && shorten.Before(next) {
				next = shorten
			}
			if by < signing && slot.Before(next) {
				next = slot
			}
			require.Equal(t, next, d.NextAt)
			return
		}
		w.apply(t, s, d, plainSign())
		s, d = w.decide()
		require.Equal(t, Nothing, d.Action, "%s: %s", d.Reason, d.Message)
		require.Same(t, &w.ca.Issuer, s.Secret.SignedBy(w.ca))
	})
}

// When the CA changes, every Secret is reconciled. Those whose time has not come are not written,
// and neither are the conditions of their Services.
func TestASuccessionWritesNothingBeforeTheMoment(t *testing.T) {
	l, web := generations(t, 2), service("web")
	w := newScene(l.At(epoch, 1), nil, web)
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	s, d = w.decide()
	web.Status.Conditions = readyOf(t, s, d, web).Both()

	w.ca = l.At(epoch, 2)
	w.ca.Reissue = pki.Window{From: epoch.Add(time.Second), Until: epoch.Add(time.Hour)}
	s, d = w.decide()
	require.Equal(t, Nothing.String(), d.Action.String())
	changes := conditions(s, d)
	require.Len(t, changes, 1)
	patch, err := state.Patch(web, api.ConditionReady, changes[0].Ready, nil, w.now)
	require.NoError(t, err)
	assert.Nil(t, patch)
}
