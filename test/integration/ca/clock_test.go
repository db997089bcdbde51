package ca

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
)

func TestClock(t *testing.T) {
	var wrong atomic.Bool
	s, o := started(t, func(c *cacontroller.Config) {
		c.CheckClock = func() error {
			if wrong.Load() {
				return errors.New("the clock is wrong")
			}
			return nil
		}
	})
	wrong.Store(true)
	stored := o.secret(t).ResourceVersion
	s.clock.Set(time.Now().Add(-time.Hour))
	assert.Equal(t, api.CANotYetValid, s.reason(), "the clock counts at once, not at the next reconcile")
	touch(t, o)
	o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool {
		return strings.HasPrefix(cm.Data[api.CAProblem], api.CANotYetValid)
	})
	require.Error(t, s.Ready(nil))

	s.clock.Set(time.Now().Add(2 * ca.DefaultCADuration))
	touch(t, o)
	s.eventuallyReason(t, api.CAExpired)
	assert.Equal(t, stored, o.secret(t).ResourceVersion, "a new CA was made by a clock that is wrong")

	wrong.Store(false)
	s.clock.Set(time.Now())
	touch(t, o)
	s.eventuallyReason(t, "")
	o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { _, ok := cm.Data[api.CAProblem]; return !ok })
}

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

func TestWiderConstraintsStartASuccession(t *testing.T) {
	first, o := started(t)
	before, err := first.Authority()
	require.NoError(t, err)
	first.stop(t)
	second := startSigner(t, o.namespace, plane.AdminConfig(), func(c *cacontroller.Config) {
		c.Constraints.PermittedDNS = append(c.Constraints.PermittedDNS, "example.com")
	})
	second.eventuallyReason(t, "")
	cm := o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAPhase] == api.PhaseWait })
	assert.Equal(t, "the flags permit example.com", cm.Data[api.CAWhy])
	assert.Equal(t, "2", cm.Data[api.CANextGeneration])
	assert.Contains(t, cm.Data[api.CAWaitingFor], "is the rotator running?")
	after, err := second.Authority()
	require.NoError(t, err)
	assert.True(t, before.Certificate.Equal(after.Certificate), "a generation that nobody trusts yet signs")
	assert.Len(t, after.Bundle.Certificates(), 2)
	assert.False(t, after.Permits("web.example.com"), "the old root does not permit it")
	eventuallyEvent(t, o, cacontroller.EventPrepared)
}
