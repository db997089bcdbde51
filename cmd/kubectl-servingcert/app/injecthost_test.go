package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOnlyAReleaseKnowsItsImage(t *testing.T) {
	assert.Equal(t, "ghcr.io/servingcert/hostsync:v1.20.3", releasedImage("hostsync", "v1.20.3"))
	for _, version := range []string{"", "devel", "v1.2", "v1.2.3-rc.1", "v0.0.0-20261125160000-0123456789ab", "v1.2.3+dirty"} {
		assert.Empty(t, releasedImage("hostsync", version), version)
	}
}
