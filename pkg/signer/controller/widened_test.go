package controller

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

func TestTheWindowBeginsWhenARootIsRemoved(t *testing.T) {
	var r roots
	l := generations(t, 3)
	ca := l.At(epoch, 3)
	from := func(after time.Duration) time.Duration {
		w := r.window(ca, epoch.Add(after), 10*time.Minute)
		assert.Equal(t, 10*time.Minute, w.Until.Sub(w.From))
		return w.From.Sub(epoch)
	}
	assert.Equal(t, time.Hour, from(time.Hour), "the process has just started")
	assert.Equal(t, time.Hour, from(2*time.Hour))
	ca = &pki.Authority{Issuer: ca.Issuer, Anchors: ca.Anchors}
	assert.Equal(t, time.Hour, from(3*time.Hour), "the same roots")
	ca = &pki.Authority{Issuer: ca.Issuer, Anchors: ca.Anchors[1:]}
	assert.Equal(t, 4*time.Hour, from(4*time.Hour))
	assert.Equal(t, 4*time.Hour, from(5*time.Hour))
}

// The bundle before is known if this process saw it, and its files are replaced at once if no root
// of it is left.
func TestTheBundleBefore(t *testing.T) {
	var r roots
	l := generations(t, 3)
	all := l.At(epoch, 3).Bundle.Certificates()
	require.GreaterOrEqual(t, len(all), 2)
	at := func(after time.Duration, bundle ...*x509.Certificate) signer.Before {
		return r.succeeded(&pki.Authority{Bundle: pki.NewBundle(bundle...)}, epoch.Add(after), 10*time.Minute)
	}
	assert.Zero(t, at(0, all[0]), "the process has just started")
	for _, later := range []time.Duration{time.Hour, 2 * time.Hour} { // another Authority, with the same bundle
		before := at(later, all[0], all[1])
		assert.Equal(t, pki.NewBundle(all[0]), *before.Bundle)
		assert.Equal(t, pki.Window{From: epoch.Add(time.Hour), Until: epoch.Add(time.Hour + 5*time.Minute)}, before.Replace)
	}
	assert.Equal(t, pki.NewBundle(all[0], all[1]), *at(3*time.Hour, all[1]).Bundle, "a root has retired")
	assert.Zero(t, at(4*time.Hour, all[0]), "all earlier roots were dropped")
}
