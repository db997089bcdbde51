package version

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestImagesAreThoseOfTheChart(t *testing.T) {
	chart, err := os.ReadFile("../../../deploy/chart/Chart.yaml")
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^appVersion: `+Images+`$`, string(chart))
}

func TestInfo(t *testing.T) {
	build := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	commit, dirty := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for name, test := range map[string]struct {
		release         string
		build           *debug.BuildInfo
		version, commit string
	}{
		"nothing known": {"", build(""), "devel", ""},
		"go run":        {"", build("(devel)"), "devel", ""},
		"go install":    {"", build("v1.1.0"), "v1.1.0", ""},
		"a release":     {"v1.2.0", build("v1.1.1-0.2026-abc", commit), "v1.2.0", "abc"},
		"with changes":  {"v1.2.0", build("", commit, dirty), "v1.2.0", "abc-dirty"},
		"only changes":  {"", build("", dirty), "devel", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := infoOf(test.release, test.build)
			assert.Equal(t, [2]string{test.version, test.commit}, [2]string{got.Version, got.Commit})
			assert.Regexp(t, `^\S+ \(commit \S+, go\S+, \w+/\w+\)$`, got.String())
		})
	}
}
