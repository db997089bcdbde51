//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/promtest"
)

// mayBeEmpty are the panels about problems of workloads, which this scene does not have. Other scenes may have some;
// make alerts fills all panels.
var mayBeEmpty = []string{
	"Stale certificates end in", "Not guarded", "Restarts", "Pods that were missed", "Pods that fail after an injection",
	"Requests that wait", "Answers", // for kubelets, if this is enabled
	"Stores that need attention", "Stores end in", "Switches", // of hostsync
	"First renewal due by another issuer",
}

// breaksForPanels makes the signer and the rotator fail until mended is called.
func (c *cluster) breaksForPanels(t *testing.T) (mended func()) {
	t.Helper()
	full := server{namespace: "e2e-prometheus-full", service: "web", secret: "web-tls"}
	c.apply(t, "prometheusfaults.yaml")
	eventually(t, settling, "the quota", func(ctx context.Context) error { // admission uses its status
		quota := &corev1.ResourceQuota{}
		err := c.admin.Get(ctx, client.ObjectKey{Namespace: full.namespace, Name: "none"}, quota)
		if err == nil && len(quota.Status.Hard) == 0 {
			err = errors.New("not in force")
		}
		return err
	})
	c.annotate(t, full, api.AnnotationSecretName, full.secret)
	for _, query := range []string{
		`servingcert_issue_failures_total{namespace="` + full.namespace + `", reason="WriteRefused"}`,
		`servingcert_trust_refusing{kind="ConfigMap", reason="Immutable"}`,
	} {
		eventually(t, settling, query, func(ctx context.Context) error {
			series, err := c.prometheus(operated).Query(ctx, query)
			if err == nil && len(series) == 0 {
				err = errors.New("no such series")
			}
			return err
		})
	}
	return func() {
		require.NoError(t, c.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: full.namespace}}))
	}
}

// showsPanels runs the queries of all dashboards over the time since then. It fails the test if one that should have
// results has none.
func (c *cluster) showsPanels(t *testing.T, since time.Time) (summary string) {
	t.Helper()
	dashboards, err := promtest.Dashboards("../../deploy/dashboards")
	require.NoError(t, err)
	eventually(t, settling, "all panels", func(ctx context.Context) (err error) {
		summary, err = c.panelsShow(ctx, dashboards, since)
		return err
	})
	return summary
}

func (c *cluster) panelsShow(ctx context.Context, dashboards []promtest.Dashboard, since time.Time) (summary string, err error) {
	all, empty, end := 0, 0, time.Now()
	var errs []error
	for _, d := range dashboards {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all++
				series, err := c.prometheus(operated).Range(ctx, promtest.Expr(target.Expr), since, end)
				if err != nil {
					return "", fmt.Errorf("%s: %s: %w", d.Title, p.Title, err)
				}
				if promtest.Shows(series) {
					continue
				}
				empty++
				if !slices.Contains(mayBeEmpty, p.Title) {
					errs = append(errs, fmt.Errorf("%s: %s: no results: %s", d.Title, p.Title, target.Expr))
				}
			}
		}
	}
	return fmt.Sprintf("%d of %d queries of dashboards have results", all-empty, all), errors.Join(errs...)
}
