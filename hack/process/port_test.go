package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A port is not returned twice, even if no process listens on it yet: its server may still be starting.
func TestAPortIsReturnedOnce(t *testing.T) {
	port, err := FreePort("127.0.0.1")
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1", ""} {
		_, err = freePort(host, int(port), int(port))
		assert.ErrorContains(t, err, "no free port among 100 tried")
	}
}
