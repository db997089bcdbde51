//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/promtest"
)

// filledBy are the panels that show what goes wrong with workloads, each by the scene that has such a workload. Without
// that scene they are empty. All others never are.
var filledBy = map[string]string{
	"Stale certificates end in": "readonce",
	"Restarts":                  "readonce",
	"Pods that were missed":     "breaks",
	"Flags that are withheld":   "corrected",
}

// breaksForPanels has the signer fail and the rotator refused until mended is called.
func (c *cluster) breaksForPanels(t *testing.T) (mended func()) {
	t.Helper()
	full := server{namespace: "e2e-prometheus-full", service: "web", secret: "web-tls"}
	c.apply(t, "prometheusfaults.yaml")
	eventually(t, settling, "the quota", func(ctx context.Context) error { // admission goes by its status
		quota := &corev1.ResourceQuota{}
		err := c.admin.Get(ctx, client.ObjectKey{Namespace: full.namespace, Name: "none"}, quota)
		if err == nil && len(quota.Status.Hard) == 0 {
			err = errors.New("it is not in force")
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

// showsPanels runs the queries of all dashboards over the time since then. It fails the test if one has nothing to show
// that the scenes which are played gave it.
func (c *cluster) showsPanels(t *testing.T, since time.Time) string {
	t.Helper()
	dashboards, err := promtest.Dashboards("../../deploy/dashboards")
	require.NoError(t, err)
	played := func(name string) bool {
		return slices.ContainsFunc(shown, func(s *scene) bool { return s.name == name && s.left == "" && !s.failed })
	}
	all, empty, end := 0, 0, time.Now()
	for _, d := range dashboards {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all++
				series, err := c.prometheus(operated).Range(t.Context(), promtest.Expr(target.Expr), since, end)
				require.NoError(t, err, "%s: %s", d.Title, p.Title)
				if promtest.Shows(series) {
					continue
				}
				empty++
				by, known := filledBy[p.Title]
				assert.True(t, known && !played(by), "%s: %s: nothing to show: %s", d.Title, p.Title, target.Expr)
			}
		}
	}
	return fmt.Sprintf("%d of %d queries of dashboards have results", all-empty, all)
}
