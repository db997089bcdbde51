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

// The manifest and the documentation say the same, and every metric in them is
// one of ours.
func TestAlerts(t *testing.T) {
	data, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var manifest struct {
		APIVersion, Kind string
		Metadata         map[string]any
		Spec             struct{ Groups []alertGroup }
	}
	require.NoError(t, yaml.UnmarshalStrict(data, &manifest))
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(page), "```yaml\ngroups:\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	var documented struct{ Groups []alertGroup }
	require.NoError(t, yaml.UnmarshalStrict([]byte("groups:\n"+block), &documented))

	require.Len(t, manifest.Spec.Groups, 1)
	require.Len(t, documented.Groups, 1)
	rules := manifest.Spec.Groups[0].Rules
	require.Len(t, documented.Groups[0].Rules, len(rules))
	metrics := registered(t)
	for i, r := range rules {
		d := documented.Groups[0].Rules[i]
		assert.Equal(t, []string{d.Alert, d.Expr, d.For}, []string{r.Alert, r.Expr, r.For})
		assert.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		names := regexp.MustCompile(`servingcert_[a-z_]+`).FindAllString(r.Expr, -1)
		assert.NotEmpty(t, names, r.Alert)
		for _, name := range names {
			assert.True(t, metrics[name], "%s: nothing has metric %s", r.Alert, name)
		}
		kept := regexp.MustCompile(`by \(([a-z, ]+)\)`).FindStringSubmatch(r.Expr)
		for _, label := range regexp.MustCompile(`\$labels\.([a-z]+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
			require.NotNil(t, kept, r.Alert)
			assert.Contains(t, strings.Split(kept[1], ", "), label[1], "%s: the sum has no such label", r.Alert)
		}
	}
}

// registered returns the names of metrics that stand in the code.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir("../pkg", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`"(servingcert_[a-z_]+)"`).FindAllSubmatch(source, -1) {
			names[string(m[1])] = true
		}
		return err
	}))
	return names
}
