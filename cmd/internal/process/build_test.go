package process

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBuildOf(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "c4457bc"}, {Key: "vcs.modified", Value: modified}}
	}
	for name, tt := range map[string]struct {
		info debug.BuildInfo
		want BuildInfo
	}{
		"a release":          {debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: vcs("false")}, BuildInfo{"v1.2.3", "c4457bc", "go1.26.8"}},
		"changed files":      {debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}, Settings: vcs("true")}, BuildInfo{"(devel)", "c4457bc-dirty", "go1.26.8"}},
		"without repository": {debug.BuildInfo{GoVersion: "go1.26.8"}, BuildInfo{"unknown", "unknown", "go1.26.8"}},
		"nothing is known":   {debug.BuildInfo{}, BuildInfo{"unknown", "unknown", "unknown"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, buildOf(&tt.info)) })
	}
}

func TestBuildMetric(t *testing.T) {
	require.NoError(t, testutil.CollectAndCompare(newBuildMetric("signer", BuildInfo{"v1.2.3", "c4457bc", "go1.26.8"}), strings.NewReader(`
# HELP servingcert_build_info 1, with the name of this process, its version and commit, and the Go version that it was built with.
# TYPE servingcert_build_info gauge
servingcert_build_info{goversion="go1.26.8",process="signer",revision="c4457bc",version="v1.2.3"} 1
`)))
}
