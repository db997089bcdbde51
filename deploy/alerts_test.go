package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

type alertGroup struct {
	Name  string
	Rules []struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
}

// alertRules returns what alerts.yaml has below spec, and its alerts.
func alertRules(t *testing.T) (spec map[string]any, group alertGroup) {
	t.Helper()
	data, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var manifest struct {
		APIVersion, Kind string
		Metadata         map[string]any
		Spec             struct{ Groups []alertGroup }
	}
	require.NoError(t, yaml.UnmarshalStrict(data, &manifest))
	require.Len(t, manifest.Spec.Groups, 1)
	var object struct{ Spec map[string]any }
	require.NoError(t, yaml.Unmarshal(data, &object))
	return object.Spec, manifest.Spec.Groups[0]
}

// aggregated finds the labels that a sum keeps.
var aggregated = regexp.MustCompile(`by \(([a-z, ]+)\)`)

// Every metric is one of ours, every sum keeps the cluster, every label of the text is there, and every alert has
// a runbook.
func TestAlerts(t *testing.T) {
	metrics, headings := registered(t), runbooks(t)
	_, group := alertRules(t)
	for _, r := range group.Rules {
		assert.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		names := regexp.MustCompile(`servingcert_[a-z_]+`).FindAllString(r.Expr, -1)
		assert.NotEmpty(t, names, r.Alert)
		for _, name := range names {
			assert.True(t, metrics[strings.TrimSuffix(name, "_bucket")], "%s: nothing has metric %s", r.Alert, name)
		}
		kept := aggregated.FindAllStringSubmatch(r.Expr, -1)
		require.NotEmpty(t, kept, r.Alert)
		for _, sum := range kept {
			assert.Contains(t, strings.Split(sum[1], ", "), "cluster", r.Alert)
		}
		summary := r.Annotations["summary"]
		assert.True(t, strings.HasPrefix(summary, "{{ with $labels.cluster }}Cluster {{ . }}: {{ end }}"), r.Alert)
		for _, label := range regexp.MustCompile(`\$labels\.([a-z]+)`).FindAllStringSubmatch(summary, -1) {
			assert.Contains(t, strings.Split(kept[0][1], ", "), label[1], "%s: the sum has no such label", r.Alert)
		}
		const page = "https://github.com/servingcert/servingcert/blob/main/docs/runbooks.md#"
		assert.Equal(t, page+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		assert.True(t, headings[r.Alert], "docs/runbooks.md has no heading %s", r.Alert)
		delete(headings, r.Alert)
	}
	assert.Empty(t, headings, "runbooks of alerts that are gone")
}

// What promtool tests (make alerts) is every alert: when it fires, and when it does not yet.
func TestEveryAlertHasATest(t *testing.T) {
	data, err := os.ReadFile("alerts_test.yaml")
	require.NoError(t, err)
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string `json:"alertname"`
				ExpAlerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	fires, waits := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.AlertRuleTest {
			if len(c.ExpAlerts) > 0 {
				fires[c.Alertname] = true
			} else {
				waits[c.Alertname] = true
			}
		}
	}
	_, group := alertRules(t)
	for _, r := range group.Rules {
		assert.True(t, fires[r.Alert] && waits[r.Alert], "alerts_test.yaml lacks a case of %s", r.Alert)
	}
}

// runbooks returns the headings of docs/runbooks.md that are alerts.
func runbooks(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../docs/runbooks.md")
	require.NoError(t, err)
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Servingcert\w+)$`).FindAllSubmatch(page, -1) {
		headings[string(m[1])] = true
	}
	return headings
}

// registered returns the names of metrics that stand in the code.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	look := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`"(servingcert_[a-z_]+)"`).FindAllSubmatch(source, -1) {
			names[string(m[1])] = true
		}
		return err
	}
	require.NoError(t, filepath.WalkDir("../pkg", look))
	require.NoError(t, filepath.WalkDir("../cmd/internal", look))
	return names
}
