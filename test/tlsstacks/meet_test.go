package main

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// epoch is the time at which the CAs of these tests begin.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// moment is a CA between two changes, with the chain of leaves issued then and the published bundle.
type moment struct {
	from, until time.Time
	authority   *pki.Authority
	bundle      []*x509.Certificate
}

// course runs the decisions of a CA for the given time, with rotation requests. Each root is
// trusted as soon as it is published.
func course(t *testing.T, o ca.Situation, length time.Duration, requests map[time.Duration]api.RotateRequest) []moment {
	var (
		moments []moment
		end     = epoch.Add(length)
	)
	for o.Now = epoch; o.Now.Before(end); {
		for at, request := range requests {
			if !o.Now.Before(epoch.Add(at)) && request.Reason > o.Request.Reason {
				o.Request = request
			}
		}
		d := ca.Decide(o)
		if d.Step.Kind != "" {
			state, data, err := d.Apply(o)
			require.NoError(t, err)
			o.Secret, o.Status = data, &api.CAStatus{Generation: state.Signing}
			o.Trust = api.TrustStatus{BundleHash: state.Bundle(o.Now).Hash(), Targets: 1, Holding: 1}
			continue
		}
		require.NotNil(t, d.State, d.Problem)
		require.Empty(t, d.Problem)
		o.Trust.BundleHash = d.State.Bundle(o.Now).Hash()
		m := moment{from: o.Now, until: end, authority: d.Authority, bundle: d.State.Bundle(o.Now).Certificates()}
		for _, next := range append([]time.Time{d.Next}, due(requests, o.Now)...) {
			if !next.IsZero() && next.Before(m.until) {
				m.until = next
			}
		}
		require.True(t, m.until.After(m.from), "at %s the next decision is at %s", m.from, m.until)
		moments = append(moments, m)
		o.Now = m.until
	}
	return moments
}

func due(requests map[time.Duration]api.RotateRequest, now time.Time) []time.Time {
	var later []time.Time
	for at := range requests {
		if epoch.Add(at).After(now) {
			later = append(later, epoch.Add(at))
		}
	}
	return later
}

// meeting is a leaf and a bundle that are in use at the same time, up to the given time.
type meeting struct {
	served []*x509.Certificate // after the leaf, or the issuer if there are none
	bundle []*x509.Certificate
	at     time.Time
}

// meetings returns all leaves and bundles that are in use at the same time: a leaf until it expires, a
// bundle until pods have the next one.
func meetings(moments []moment, maxDuration, soak time.Duration) []meeting {
	var met []meeting
	for _, issued := range moments {
		ends := issued.until.Add(maxDuration)
		if end := issued.authority.Certificate.NotAfter; end.Before(ends) {
			ends = end
		}
		for _, held := range moments {
			from, until := later(issued.from, held.from), ends
			if h := held.until.Add(soak); h.Before(until) {
				until = h
			}
			if from.Before(until) {
				chain := append([]*x509.Certificate{issued.authority.Certificate}, issued.authority.Chain...)
				met = append(met, meeting{chain, held.bundle, from}, meeting{chain, held.bundle, until})
			}
		}
	}
	return met
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// verifies reports whether every stack must accept the leaf: a root in the bundle is that of the issuer
// or of an unexpired cross-certificate in the chain.
func (m meeting) verifies() bool {
	for i, c := range m.served {
		if i > 0 && m.at.After(c.NotAfter) {
			return false
		}
		names := [][]byte{c.RawSubject, c.RawIssuer}
		if slices.ContainsFunc(names, func(name []byte) bool { return m.holds(name) }) {
			return true
		}
	}
	return false
}

// lastIsNamed reports what GnuTLS also requires, as running.lastIsNamed does.
func (m meeting) lastIsNamed() bool {
	last := m.served[len(m.served)-1]
	return m.holds(last.RawIssuer) || m.holds(last.RawSubject)
}

func (m meeting) holds(name []byte) bool {
	return slices.ContainsFunc(m.bundle, func(root *x509.Certificate) bool {
		return bytes.Equal(root.RawSubject, name) && !m.at.After(root.NotAfter)
	})
}

func (m meeting) String() string {
	names := func(certs []*x509.Certificate) string {
		var words []string
		for _, c := range certs {
			words = append(words, fmt.Sprintf("%s by %s", generationOf(c.Subject.CommonName), generationOf(c.Issuer.CommonName)))
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("[%s] meets [%s] at %s", names(m.served), names(m.bundle), m.at.Sub(epoch))
}

// TestWhatTheCALetsMeet checks that the CA's decisions agree with the table: every stack accepts each
// leaf with each bundle that is in use at the same time.
func TestWhatTheCALetsMeet(t *testing.T) {
	ask := func(reason string) api.RotateRequest {
		return api.RotateRequest{Mode: api.RotateOverlap, Reason: reason}
	}
	usual := ca.Situation{Parameters: ca.Parameters{
		Constraints: api.DefaultLimits().Constraints(), Domain: "cluster.local",
		MaxDuration: time.Hour, CADuration: 365 * 24 * time.Hour, Soak: 5 * time.Minute, Reissue: 10 * time.Minute,
	}}
	short := usual
	short.CADuration = 60 * time.Hour
	for name, c := range map[string]struct {
		ca       ca.Situation
		length   time.Duration
		requests map[time.Duration]api.RotateRequest
		makes    int // generations
	}{
		"asked for, in good time": {usual, 400 * time.Hour, map[time.Duration]api.RotateRequest{
			100 * time.Hour: ask("a"), 200 * time.Hour: ask("b"), 300 * time.Hour: ask("c")}, 4},
		"asked for, in one day": {usual, 100 * time.Hour, map[time.Duration]api.RotateRequest{
			time.Hour: ask("a"), 2 * time.Hour: ask("b"), 3 * time.Hour: ask("c")}, 4},
		"by time": {short, 250 * time.Hour, nil, 7},
		"asked for, and then by time": {short, 250 * time.Hour, map[time.Duration]api.RotateRequest{
			time.Hour: ask("a"), 2 * time.Hour: ask("b")}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			moments := course(t, c.ca, c.length, c.requests)
			assert.Equal(t, fmt.Sprint(c.makes), generationOf(moments[len(moments)-1].authority.Certificate.Subject.CommonName))
			for _, m := range meetings(moments, c.ca.MaxDuration, c.ca.Soak) {
				require.True(t, m.verifies(), "%s", m)
				require.True(t, m.lastIsNamed(), "%s: GnuTLS does not find a root", m)
			}
		})
	}
}
