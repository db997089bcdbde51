package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// Namespaces that come and go leave no series behind.
func TestFailuresOfANamespaceEndWithIt(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	require.NoError(t, err)
	metrics.failed("shop", "WriteFailed")
	metrics.failed("gone", "WriteFailed")
	metrics.failed("gone", "SecretConflict")

	c := withSecrets(t)
	c.metrics = metrics
	gone := facts.Metadata("Namespace")
	gone.ObjectMeta = metav1.ObjectMeta{Name: "gone"}
	c.namespaceHandler().Delete(t.Context(), event.DeleteEvent{Object: gone}, nil) // nothing is enqueued

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP servingcert_issue_failures_total Certificates that were requested or due and not issued, by namespace and reason: every failed attempt, and every refused request once. A namespace's series are deleted with it and with its opt-in; those of a namespace without it with its last Service.
# TYPE servingcert_issue_failures_total counter
servingcert_issue_failures_total{namespace="shop",reason="WriteFailed"} 1
`), "servingcert_issue_failures_total"))
}

// No event reports the end of a namespace that is not opted in, where OpenShift's annotations are honored. Its
// series end with its last Service, and a failure that is counted later leaves none.
func TestFailuresOfANamespaceWithoutTheOptInEndWithItsServices(t *testing.T) {
	metrics, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	c := withSecrets(t)
	c.metrics = metrics
	c.metadata = fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "opted-in"}}).Build()
	services, web := fcache.NewFakeControllerSource(), service("web")
	services.Add(web)
	informer, err := facts.NewInformerOf(services, serviceOptions(true))
	require.NoError(t, err)
	start(t, informer)
	c.services = &Services{informer}
	fail := func(namespace string) int {
		c.failed(t.Context(), namespace, "WriteFailed")
		c.failed(t.Context(), namespace, "")
		return testutil.CollectAndCount(metrics.failures)
	}
	assert.Equal(t, 1, fail("shop"), "it has a Service")
	assert.Equal(t, 1, fail("gone"))
	assert.Equal(t, 2, fail("opted-in"))

	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	services.Delete(web)
	require.Eventually(t, func() bool { return informer.Get(types.NamespacedName{Namespace: "shop", Name: "web"}) == nil }, process.Soon, time.Millisecond)
	c.serviceChanged(t.Context(), q, web, nil)
	for c.fanOut.Next() {
	}
	assert.Equal(t, 1, testutil.CollectAndCount(metrics.failures), "its last Service is gone")
	assert.Equal(t, 1, fail("shop"))
}

// TestWhatAServiceLacksOfAnotherIssuersSecret is in the metric of its alert: since when condition Ready reports it.
func TestWhatAServiceLacksOfAnotherIssuersSecret(t *testing.T) {
	wrong, right := service("wrong"), service("right")
	since := epoch.Add(time.Minute)
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "NamesMissing", LastTransitionTime: metav1.NewTime(since)}
	wrong.Status.Conditions = state.Say(ready, state.Ready{Secret: "web-tls", External: true}).Both()
	services := fcache.NewFakeControllerSource()
	informer, err := facts.NewInformerOf(services, serviceOptions(false))
	require.NoError(t, err)
	start(t, informer)
	c := withSecrets(t)
	c.services = &Services{informer}
	key := types.NamespacedName{Namespace: "shop", Name: "web-tls"}
	known := signer.ExternalOf(managed(issueBy(t, testCA(t), wantedBy(right))), api.DefaultInstance, nil, pki.Bundle{}, epoch)
	c.externals.set(key, known)
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(newExpiry(c)))
	const name = "servingcert_external_certificate_renew_by_timestamp_seconds"
	is := func(at time.Time) func() bool {
		return func() bool {
			families, err := registry.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == name {
					return len(f.GetMetric()) == 1 && int64(f.GetMetric()[0].GetGauge().GetValue()) == at.Unix()
				}
			}
			return false
		}
	}
	services.Add(right)
	require.Eventually(t, func() bool { return len(informer.List()) == 1 }, process.Soon, time.Millisecond)
	assert.True(t, is(known.RenewBy())())
	services.Add(wrong)
	require.Eventually(t, is(since), process.Soon, time.Millisecond, "it waits for the one that is wrong")
	services.Delete(wrong)
	require.Eventually(t, is(known.RenewBy()), process.Soon, time.Millisecond)
}
