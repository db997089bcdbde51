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
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
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
