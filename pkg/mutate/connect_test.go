package mutate

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// TestACopiedProxyOfAnotherSecret: it connects to the Services of the pod where it is now, and the report does not say
// that it serves. It is no golden, because the pod loses what it had of the first namespace.
func TestACopiedProxyOfAnotherSecret(t *testing.T) {
	data, err := os.ReadFile("testdata/connect-copied-other-secret.yaml")
	require.NoError(t, err)
	s := readScene(t, data)
	patch, report, err := Mutate(decodePod(t, s.pod), s.known)
	require.NoError(t, err)
	assert.Equal(t, reasons.ProxyNameTaken, report.Reason)
	require.Len(t, report.Containers, 1)
	assert.Equal(t, "connect", report.Containers[0].Parts())
	operations, err := patch.JSON()
	require.NoError(t, err)
	assert.Contains(t, string(operations), "=db.shop.svc:5432")
	assert.Contains(t, string(operations), `"db.shop"`)
	assert.NotContains(t, string(operations), "staging")
}
