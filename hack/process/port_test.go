package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A port is given once, though nobody listens on it yet: whoever got it may be starting still.
func TestAPortIsGivenOnce(t *testing.T) {
	port, err := FreePort("127.0.0.1")
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1", ""} {
		_, err = freePort(host, int(port), int(port))
		assert.ErrorContains(t, err, "no free port among 100 tried")
	}
}
