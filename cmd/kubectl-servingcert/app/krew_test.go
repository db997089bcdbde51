package app

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestKrewManifest: what Krew demands of a manifest, and what the release fills in.
func TestKrewManifest(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/krew/servingcert.yaml")
	require.NoError(t, err)
	var plugin struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription string
			Platforms                 []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
				Files            []struct{ From, To string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &plugin))
	assert.Equal(t, "krew.googlecontainertools.github.com/v1alpha2 Plugin servingcert VERSION", strings.Join([]string{plugin.APIVersion, plugin.Kind, plugin.Metadata.Name, plugin.Spec.Version}, " "))
	assert.LessOrEqual(t, len(plugin.Spec.ShortDescription), 50, "Krew's naming guide")
	assert.Len(t, plugin.Spec.Platforms, 6)
	for _, p := range plugin.Spec.Platforms {
		system, arch := p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]
		suffix := ".tar.gz"
		if system == "windows" {
			suffix = ".zip"
		}
		assert.Equal(t, "BASEURL/kubectl-servingcert_"+system+"_"+arch+suffix, p.URI)
		assert.Equal(t, "SHA256_"+strings.ToUpper(system+"_"+arch), p.SHA256)
		assert.Equal(t, p.Bin, p.Files[0].From)
	}
}
