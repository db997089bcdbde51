package pick

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for list, want := range map[string][2]bool{ // of reload and nginx
		"": {true, true}, "reload": {true, false}, "nginx,reload": {true, true}, "-reload": {false, true}, "-nginx,-reload": {false, false}, "other": {false, false},
	} {
		scenes, err := Parse(list)
		require.NoError(t, err)
		assert.Equal(t, want, [2]bool{scenes.Has("reload"), scenes.Has("nginx")}, "%q", list)
	}
	for _, list := range []string{"reload,-nginx", "-nginx,reload"} {
		_, err := Parse(list)
		assert.EqualError(t, err, "scenes: "+list+": must have a hyphen before each name, or before none")
	}
}
