package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestTheWindowBeginsWhenARootHasGone(t *testing.T) {
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
