package promtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The configuration was generated from the current PodMonitors.
func TestTheConfigurationIsOfThesePodMonitors(t *testing.T) {
	monitors, err := os.ReadFile("../../deploy/podmonitors.yaml")
	require.NoError(t, err)
	assert.Contains(t, podMonitors, fmt.Sprintf("%x", sha256.Sum256(monitors)), "run make generate")
}

// Both configurations have the same targets, and verify them in the same way.
func TestJobs(t *testing.T) {
	operated, err := OfPodMonitors(`to"ken`)
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	documented, err := OfDocs(page)
	require.NoError(t, err)
	names := func(jobs []Job) (names []string) {
		for _, job := range jobs {
			tls := job["tls_config"].(map[string]any)
			names = append(names, tls["server_name"].(string))
			assert.NotContains(t, tls, "insecure_skip_verify")
			assert.Equal(t, "https", job["scheme"])
			assert.True(t, job["honor_labels"].(bool))
			assert.Contains(t, job, "kubernetes_sd_configs")
		}
		return names
	}
	all := []string{"servingcert-signer.servingcert-system.svc", "servingcert-trust.servingcert-system.svc", "servingcert-rotator.servingcert-system.svc", "servingcert-webhook.servingcert-system.svc"}
	assert.ElementsMatch(t, all, names(operated))
	assert.ElementsMatch(t, all, names(documented))
	for _, job := range operated {
		assert.Equal(t, map[string]any{"type": "Bearer", "credentials": `to"ken`}, job["authorization"])
		assert.Equal(t, CAFile, job["tls_config"].(map[string]any)["ca_file"])
	}
	config, err := Config("2s", operated)
	require.NoError(t, err)
	assert.NotContains(t, string(config), "TOKEN")
	assert.NotContains(t, string(config), "$(SHARD)")

	_, err = OfDocs([]byte("a page without"))
	require.EqualError(t, err, "the page has no scrape_configs")
}

// The rules do not wait, and are otherwise unchanged.
func TestImpatient(t *testing.T) {
	alerts, err := os.ReadFile("../../deploy/alerts.yaml")
	require.NoError(t, err)
	rules, err := Impatient(alerts)
	require.NoError(t, err)
	assert.Equal(t, strings.Count(string(alerts), "- alert:"), strings.Count(string(rules), "alert:"))
	assert.NotContains(t, string(rules), " for: ")
	assert.NotRegexp(t, `\[\d+m\]`, string(rules))
	assert.Contains(t, string(rules), "[1d]", "the range of ServingcertSilent")
	assert.True(t, strings.HasPrefix(string(rules), "groups:"), "%s", rules[:20])
}

func TestDashboards(t *testing.T) {
	all, err := Dashboards("../../deploy/dashboards")
	require.NoError(t, err)
	require.Len(t, all, 4)
	metrics, err := os.ReadFile("../../docs/reference-generated.md")
	require.NoError(t, err)
	assert.Equal(t, "servingcert-overview", all[0].Name)
	for _, d := range all {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				assert.NotContains(t, Expr(target.Expr), "$", "%s: %s: a variable is not replaced", d.Title, p.Title)
				for _, name := range regexp.MustCompile("servingcert_[a-z_]+").FindAllString(target.Expr, -1) {
					assert.Contains(t, string(metrics), "`"+strings.TrimSuffix(name, "_bucket")+"`", "%s: %s: no such metric", d.Title, p.Title)
				}
			}
		}
	}
	_, err = Dashboards(t.TempDir())
	require.ErrorContains(t, err, "no dashboards in ")
}

// answers returns an API with the given responses.
func answers(body string, failed error) API {
	return func(context.Context, string, url.Values) ([]byte, error) { return []byte(body), failed }
}

func TestAPI(t *testing.T) {
	ctx := t.Context()
	series, err := answers(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1700000000.5,"0.25"]}]}}`, nil).Query(ctx, "x")
	require.NoError(t, err)
	assert.Equal(t, []Series{{map[string]string{"a": "b"}, []Point{{1700000000.5, 0.25}}}}, series)

	series, err = answers(`{"status":"success","data":{"result":[{"metric":{},"values":[[1,"NaN"],[2,"+Inf"]]},{"metric":{"n":"1"},"values":[[1,"NaN"]]}]}}`, nil).Range(ctx, "x", time.Now(), time.Now())
	require.NoError(t, err)
	require.Len(t, series, 2)
	assert.Len(t, series[0].Points, 1)
	assert.True(t, Shows(series))
	assert.False(t, Shows(series[1:]), "the quantile of no samples")

	targets, err := answers(`{"status":"success","data":{"activeTargets":[{"labels":{"pod":"p"},"scrapePool":"s","scrapeUrl":"https://u","lastError":"e","health":"down"}]}}`, nil).Targets(ctx)
	require.NoError(t, err)
	assert.Equal(t, []Target{{map[string]string{"pod": "p"}, "s", "https://u", "down", "e"}}, targets)

	firing, err := answers(`{"status":"success","data":{"alerts":[{"labels":{"alertname":"A"},"state":"pending"},{"labels":{"alertname":"B"},"state":"firing"}]}}`, nil).Firing(ctx)
	require.NoError(t, err)
	assert.Equal(t, []map[string]string{{"alertname": "B"}}, firing)

	_, err = answers(`{"status":"error","errorType":"bad_data","error":"parse error"}`, nil).Query(ctx, "x")
	require.ErrorContains(t, err, "parse error")
	_, err = answers("", errors.New("refused")).Query(ctx, "x")
	require.EqualError(t, err, "/api/v1/query: refused")
	_, err = answers("Service Unavailable", nil).Query(ctx, "x")
	require.ErrorContains(t, err, "/api/v1/query: invalid character")
}

func TestHas(t *testing.T) {
	labels := map[string]string{"a": "1", "b": "2"}
	assert.True(t, Has(labels, map[string]string{"a": "1"}))
	assert.True(t, Has(labels, nil))
	assert.False(t, Has(labels, map[string]string{"a": "2"}))
	assert.False(t, Has(labels, map[string]string{"c": "1"}))
}
