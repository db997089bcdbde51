package ca

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/ca"
)

func TestMarkIsRaisedOnceADay(t *testing.T) {
	s, o := started(t)
	mark := func() time.Time {
		stored, err := ca.ParseState(o.secret(t).Data)
		require.NoError(t, err)
		return stored.Generations[0].UsedUntil
	}
	before, changes := mark(), s.changes.Load()

	s.clock.Set(time.Now().Add(25 * time.Hour))
	touch(t, o)
	require.Eventually(t, func() bool { return mark().After(before) }, waitFor, tick)
	raised := mark()
	assert.InDelta(t, 25*time.Hour, raised.Sub(before), float64(time.Minute))
	require.Eventually(t, func() bool { a, err := s.Authority(); return err == nil && a.SignUntil.Equal(raised) }, waitFor, tick)
	assert.Equal(t, changes, s.changes.Load(), "a raised mark is no reason to look at every certificate")

	s.clock.Set(time.Now().Add(48 * time.Hour))
	rv := o.secret(t).ResourceVersion
	cm := touch(t, o)
	o.eventuallyStatus(t, func(now *corev1.ConfigMap) bool { return now.ResourceVersion != cm.ResourceVersion })
	assert.Equal(t, rv, o.secret(t).ResourceVersion, "the mark was raised twice within a day")
}
