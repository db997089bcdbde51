package signer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
)

// Whoever forgot the label learns it from an event, and nobody else gets one.
func TestWhoForgotTheLabel(t *testing.T) {
	const says = `namespace "shop" does not have label servingcert.dev/inject=enabled: the Service gets no certificate; to opt in: kubectl label namespace shop servingcert.dev/inject=enabled`
	answered := service("web")
	answered.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: api.ReasonNotOptedIn}}
	deleted := service("web")
	deleted.DeletionTimestamp = &metav1.Time{Time: epoch}
	openShift := api.Translate(service("web", api.AnnotationSecretName, "-", api.OpenShiftBeta+"/serving-cert-secret-name", "web-tls"))
	require.True(t, api.Asks(openShift))
	for name, c := range map[string]struct {
		svc     *corev1.Service
		optedIn bool
		want    bool
	}{
		"asks for a Secret":              {service("web"), false, true},
		"asks for what is not allowed":   {service("web", api.AnnotationDuration, "x"), false, true},
		"asks for a Secret with no name": {service("web", api.AnnotationSecretName, ""), false, true},
		"asks for keys of its pods":      {service("web", api.AnnotationSecretName, "-", api.AnnotationKeySource, "pod"), false, true},
		"opted in":                       {service("web"), true, false},
		"asks for nothing":               {service("web", api.AnnotationSecretName, "-"), false, false},
		"its condition says so":          {answered, false, false},
		"is being deleted":               {deleted, false, false},
		"asks by OpenShift's annotation": {openShift, false, false},
	} {
		e := NotOptedInNotice(c.svc, c.optedIn)
		require.Equal(t, c.want, e != nil, name)
		if c.want {
			assert.Equal(t, Event{c.svc, corev1.EventTypeWarning, "NamespaceNotOptedIn", says}, *e, name)
		}
	}
}

// A change of anything else than what is asked for is no reason for another event.
func TestAsksAnew(t *testing.T) {
	silent, web, other := service("web", api.AnnotationSecretName, "-"), service("web"), service("web", api.AnnotationSecretName, "other-tls")
	podKeys, longer := service("web", api.AnnotationKeySource, "pod"), service("web", api.AnnotationDuration, "48h")
	for name, c := range map[string]struct {
		before, after *corev1.Service
		want          bool
	}{
		"a new Service that asks":     {nil, web, true},
		"a new Service that does not": {nil, silent, false},
		"it was annotated":            {silent, web, true},
		"for another Secret":          {web, other, true},
		"for keys of its pods":        {web, podKeys, true},
		"for a longer time":           {web, longer, false},
		"nothing changed":             {web, web, false},
		"it does not ask any more":    {web, silent, false},
		"it was deleted":              {web, nil, false},
	} {
		assert.Equal(t, c.want, AsksAnew(c.before, c.after), name)
	}
}

// A namespace has so many events, and all have so many, however many Services there are.
func TestNoticesAreBounded(t *testing.T) {
	n := NewNotices()
	take := func(namespace string, times int, now time.Time) (taken int) {
		for range times {
			if n.Take(namespace, now) {
				taken++
			}
		}
		return taken
	}
	assert.Equal(t, 10, take("tenant", 10_000, epoch))
	assert.Equal(t, 1, take("shop", 1, epoch), "a tenant does not use up what others have")
	assert.Equal(t, 5, take("tenant", 10_000, epoch.Add(5*time.Minute)))
	each := func(namespaces int, now time.Time) (taken int) {
		for i := range namespaces {
			taken += take(fmt.Sprint("n", i), 1, now)
		}
		return taken
	}
	now := epoch.Add(time.Hour)
	assert.Equal(t, 100, each(10_000, now))
	assert.Equal(t, 60, each(10_000, now.Add(time.Minute)))
	for i := range 20_000 {
		n.Take(fmt.Sprint("m", i), now.Add(time.Duration(i)*time.Minute))
	}
	assert.LessOrEqual(t, n.namespaces.Len(), 2*limit.MinSweep)
}
