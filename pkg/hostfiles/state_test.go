package hostfiles_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

func TestStateRoundTrip(t *testing.T) {
	none, err := hostfiles.ParseState(nil)
	require.NoError(t, err)
	assert.Equal(t, hostfiles.State{Version: 1}, none)
	most, now := strings.Repeat("a", 256), time.Now().UTC().Round(0)
	for _, failure := range []string{most, most + "a"} {
		s := hostfiles.State{Version: 1, Switch: &hostfiles.Switch{To: "id"}}.Acted(errors.New(failure), now)
		assert.Equal(t, strings.Replace(failure, most+"a", most+"…", 1), s.Switch.Failure)
		read, err := hostfiles.ParseState(s.Encode())
		require.NoError(t, err)
		assert.Equal(t, s, read)
	}
	s := hostfiles.State{Version: 1, Switch: &hostfiles.Switch{To: "id"}}.Acted(errors.New("a"+strings.Repeat("é", 256)), now)
	assert.Equal(t, "a"+strings.Repeat("é", 127)+"…", s.Switch.Failure, "the limit is in the middle of a character")
	for text, want := range map[string]string{"{": "cannot be read", `{"version": 2}`: "has version 2: must be 1"} {
		s, err := hostfiles.ParseState([]byte(text))
		assert.ErrorContains(t, err, want)
		assert.Equal(t, none, s)
	}
}
