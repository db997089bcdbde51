package volume

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		child, parent string
		want          bool
	}{
		{"/etc/tls", "/etc", true}, {"/etc/tls/deep", "/etc", true}, {"/etc", "/", true},
		{"/etc", "/etc", false}, {"/", "/", false}, {"/etcetera", "/etc", false}, {"/etc", "/etc/tls", false}, {"/", "/etc", false},
	} {
		assert.Equal(t, tt.want, below(tt.child, tt.parent), "%s below %s", tt.child, tt.parent)
	}
}
