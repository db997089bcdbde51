package signer

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// distant returns a CA without its key, and a Sign that changes the requested times, as a remote CA
// may.
func distant(ca *pki.Authority, change ...func(*x509.Certificate, *pki.Authority)) (*pki.Authority, issue.Sign) {
	here := *ca
	here.Key = nil
	sign := plainSign(change...)
	return &here, func(ctx context.Context, _ *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		return sign(ctx, ca, request)
	}
}

// A certificate of a remote CA, with any times, is either refused with a message, or valid until it
// is due, which is not at once.
func TestACAElsewhereIsNotAskedAgainAndAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ca := newCA(t, clusterNames, epoch.Add(-day), epoch.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "CA's end"))*time.Hour))
		shift := time.Duration(rapid.IntRange(-90*60, 60).Draw(t, "shift")) * time.Second
		shorter := time.Duration(rapid.IntRange(0, 800*60).Draw(t, "shorter")) * time.Minute
		known, sign := distant(ca, func(c *x509.Certificate, _ *pki.Authority) {
			c.NotBefore = c.NotBefore.Add(shift)
			c.NotAfter = c.NotAfter.Add(-shorter)
		})
		w := newScene(known, nil, service("web",
			api.AnnotationDuration, oneOf(t, "duration", "1h", "2h", "24h", "720h"),
			api.AnnotationRenewAfter, oneOf(t, "renew after", "-", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z", "2026-03-02T00:00:00Z")))
		s, d := w.decide()
		issued, err := issue.Issue(context.Background(), sign, known, d.Wanted, w.now)
		if err != nil {
			var refused *issue.RefusedError
			require.ErrorAs(t, err, &refused)
			require.False(t, shift >= -time.Hour && shorter == 0, "as it was asked, and dated back by an hour at most: %s", err)
			return
		}
		w.write(t, s, d, &issued)
		_, d = w.decide()
		require.Equal(t, Nothing, d.Action, "%s: %s", d.Reason, d.Message)
		ends := !issued.Leaf.NotAfter.Before(known.Certificate.NotAfter)
		require.True(t, ends || d.NextAt.Sub(w.now) >= time.Minute || d.NextAt.Equal(d.Wanted.RenewAfter), "%s", d.NextAt)

		if at := d.Wanted.RenewAfter; at.After(w.now) && at.Before(known.Certificate.NotAfter) {
			w.now = at
			s, d = w.decide()
			if d.Action == Nothing { // a certificate that is dated later counts as issued later
				require.False(t, pki.IssuedAt(issued.Leaf).Before(at))
				return
			}
			again, err := issue.Issue(context.Background(), sign, known, d.Wanted, w.now)
			if err != nil {
				return // it ends too soon by now
			}
			w.write(t, s, d, &again)
			_, d = w.decide()
			require.Equal(t, Nothing, d.Action, "once is enough: %s: %s", d.Reason, d.Message)
		}
	})
}

// The only effect of a recorded renewal is to prevent another one.
func TestTheRecordOfARenewal(t *testing.T) {
	const at = "2026-03-01T11:59:00Z"
	local := testCA(t)
	known, sign := distant(local, func(c *x509.Certificate, _ *pki.Authority) { c.NotBefore = c.NotBefore.Add(-time.Hour) })
	web := service("web", api.AnnotationRenewAfter, at)
	issued, err := issue.Issue(context.Background(), sign, known, wantedBy(web), epoch)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		ca     *pki.Authority
		record string
		reason Reason
	}{
		"as it was written":                {known, at, ""},
		"of a later one":                   {known, "2026-03-01T11:59:30Z", ""},
		"of an earlier one":                {known, "2026-03-01T11:58:59Z", reasonRequested},
		"lost":                             {known, "", reasonRequested},
		"no time":                          {known, "yes", reasonRequested},
		"the CA is here: the bytes decide": {local, at, reasonRequested},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(c.ca, managed(issued, web), web)
			w.secret.Annotations = map[string]string{api.AnnotationRenewedAfter: c.record}
			if c.ca == local { // lifetimes of CAs here are held to the second
				w.services[0] = service("web", api.AnnotationRenewAfter, at, api.AnnotationDuration, "721h")
			}
			s, d := w.decide()
			require.Equal(t, c.reason, d.Reason, "%s", d.Message)
			if c.reason != "" && c.ca == known {
				w.apply(t, s, d, sign)
				assert.Equal(t, at, w.secret.Annotations[api.AnnotationRenewedAfter])
				_, d = w.decide()
				assert.Equal(t, Nothing.String(), d.Action.String(), "once")
			}
		})
	}
	t.Run("not of a time that has not come", func(t *testing.T) {
		issued, err := issue.Issue(context.Background(), sign, known, wantedBy(service("web", api.AnnotationRenewAfter, "2026-03-02T00:00:00Z")), epoch)
		require.NoError(t, err)
		assert.Zero(t, issued.RenewedAfter)
	})
	t.Run("not of a CA here", func(t *testing.T) {
		assert.Zero(t, issueBy(t, local, wantedBy(web), epoch).RenewedAfter)
	})
}

// For a retained Secret, a remote CA is asked for the default lifetime: the CA's deviations would
// add up with every renewal.
func TestRetainedLifetimesDoNotGrow(t *testing.T) {
	known, sign := distant(testCA(t), func(c *x509.Certificate, _ *pki.Authority) { c.NotBefore = c.NotBefore.Add(-time.Hour) })
	w := newScene(known, nil, service("web"))
	s, d := w.decide()
	w.apply(t, s, d, sign)
	w.services[0] = service("web", api.AnnotationSecretName, "-")
	for range 3 {
		_, d = w.decide()
		w.now = d.NextAt
		s, d = w.decide()
		require.Equal(t, reasonDue, d.Reason)
		w.apply(t, s, d, sign)
		leaf := FactsOf(w.secret, api.DefaultInstance).Leaf
		require.Equal(t, 721*time.Hour, leaf.NotAfter.Sub(leaf.NotBefore))
	}
}
