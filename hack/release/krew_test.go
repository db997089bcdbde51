package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// The manifest, rendered from the real template, has what Krew requires.
func TestKrewManifest(t *testing.T) {
	var archives []pluginArchive
	for i, p := range pluginPlatforms {
		archives = append(archives, pluginArchive{p, p.archive(plugin), p.program(plugin), strings.Repeat(string(rune('a'+i)), 64)})
	}
	r := &release{version: "v1.2.3", source: "../..", out: t.TempDir()}
	require.NoError(t, r.krew(archives))
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription string
			Platforms                 []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels struct{ OS, Arch string } }
				Files            []struct{ From, To string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(content(t, r.out, "krew.yaml"), &manifest))
	spec := manifest.Spec
	require.Equal(t, "krew.googlecontainertools.github.com/v1alpha2 Plugin servingcert v1.2.3",
		strings.Join([]string{manifest.APIVersion, manifest.Kind, manifest.Metadata.Name, spec.Version}, " "))
	require.LessOrEqual(t, len(spec.ShortDescription), 50, "Krew's naming guide")
	require.Len(t, spec.Platforms, len(pluginPlatforms))
	for i, p := range spec.Platforms {
		require.Equal(t, pluginPlatforms[i], platform(p.Selector.MatchLabels))
		require.Equal(t, "https://github.com/servingcert/servingcert/releases/download/v1.2.3/"+archives[i].File, p.URI)
		require.Equal(t, archives[i].SHA256, p.SHA256)
		require.Equal(t, archives[i].Program, p.Bin)
		require.Equal(t, p.Bin, p.Files[0].From)
	}
}
