package controller

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/servingcert/servingcert/pkg/facts"
)

// Namespaces that come and go leave no series behind.
func TestFailuresOfANamespaceEndWithIt(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	require.NoError(t, err)
	metrics.failed("shop", "WriteFailed")
	metrics.failed("gone", "WriteFailed")
	metrics.failed("gone", "SecretConflict")
	metrics.failed("shop", "")

	c := withSecrets(t)
	c.metrics = metrics
	gone := facts.Metadata("Namespace")
	gone.ObjectMeta = metav1.ObjectMeta{Name: "gone"}
	c.namespaceHandler().Delete(t.Context(), event.DeleteEvent{Object: gone}, nil) // nothing is enqueued

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP servingcert_issue_failures_total Certificates that were requested or due and not issued, by namespace and reason: every failed attempt, and every refused request once. A namespace's series are deleted with it.
# TYPE servingcert_issue_failures_total counter
servingcert_issue_failures_total{namespace="shop",reason="WriteFailed"} 1
`), "servingcert_issue_failures_total"))
}
