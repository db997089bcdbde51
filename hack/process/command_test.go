package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestChoose(t *testing.T) {
	all := []string{"etcd", "kill", "disk"}
	for value, want := range map[string][]string{"": all, "kill": {"kill"}, "disk,etcd": {"etcd", "disk"}} {
		chosen, err := Choose("faults", value, all, func(s string) string { return s })
		assert.NoError(t, err)
		assert.Equal(t, want, chosen)
	}
	_, err := Choose("faults", "etcd,floods", all, func(s string) string { return s })
	assert.EqualError(t, err, `--faults: "floods": must be of etcd, kill, disk`)
}
