package process

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/internal/version"
)

func TestBuildMetric(t *testing.T) {
	require.NoError(t, testutil.CollectAndCompare(newBuildMetric("signer", version.Info{Version: "v1.2.3", Go: "go1.26.8"}), strings.NewReader(`
# HELP servingcert_build_info 1, with the name of this process, its version and commit, and the Go version that it was built with.
# TYPE servingcert_build_info gauge
servingcert_build_info{goversion="go1.26.8",process="signer",revision="unknown",version="v1.2.3"} 1
`)))
}
