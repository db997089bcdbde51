package volume

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/test/bounded"
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

// TestALongMountPathCostsLittle: the path of a mount has any length, and is compared many times.
func TestALongMountPathCostsLittle(t *testing.T) {
	c := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "//" + strings.Repeat("a", 3<<20)}}}
	allocated := bounded.Allocated(func() {
		reason, _ := Obstacle(&corev1.Pod{}, c, "v", "/etc/tls")
		assert.Empty(t, reason)
	})
	assert.Less(t, allocated, uint64(4<<10))
	c.VolumeMounts[0].MountPath = "/etc/./tls/"
	assert.True(t, Mounted(c, "v", "/etc/tls"))
}
