package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestKrew fills in the real template, which has a platform for each archive.
func TestKrew(t *testing.T) {
	template, err := os.ReadFile("../../" + krewTemplate)
	require.NoError(t, err)
	sums := map[string]string{}
	for i, p := range pluginPlatforms {
		sums[p.os+"_"+p.arch] = strings.Repeat(string(rune('a'+i)), 64)
	}
	text, err := krew(string(template), "v1.2.3", sums)
	require.NoError(t, err)
	require.False(t, strings.HasPrefix(text, "#"))
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &plugin))
	require.Equal(t, "v1.2.3", plugin.Spec.Version)
	require.Len(t, plugin.Spec.Platforms, len(pluginPlatforms))
	for _, p := range plugin.Spec.Platforms {
		found := platform{p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]}
		require.Contains(t, pluginPlatforms, found)
		require.Equal(t, "https://github.com/servingcert/servingcert/releases/download/v1.2.3/"+found.pluginArchive(), p.URI)
		require.Equal(t, sums[found.os+"_"+found.arch], p.SHA256)
	}

	sums["plan9_arm"] = "1"
	_, err = krew(string(template), "v1.2.3", sums)
	require.ErrorContains(t, err, "SHA256_PLAN9_ARM is not in it")
	delete(sums, "plan9_arm")
	delete(sums, "linux_arm64")
	_, err = krew(string(template), "v1.2.3", sums)
	require.ErrorContains(t, err, "nothing is known of SHA256_LINUX_ARM64")
}
