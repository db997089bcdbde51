package app

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/cmd/internal/version"
)

func TestImageOfHostsync(t *testing.T) {
	assert.Equal(t, "ghcr.io/servingcert/hostsync:v1.20.3", imageOf("hostsync", "v1.20.3"))
	for _, of := range []string{"", "devel", "v1.2", "v1.2.3-rc.1", "v0.0.0-20261125160000-0123456789ab", "v1.2.3+dirty"} {
		assert.Equal(t, "ghcr.io/servingcert/hostsync:"+version.Images, imageOf("hostsync", of), of)
	}
}
