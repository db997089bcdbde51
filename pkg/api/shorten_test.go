package api_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestShorten(t *testing.T) {
	assert.Empty(t, api.Shorten("", 3))
	assert.Equal(t, "äöü", api.Shorten("äöü", 3))
	assert.Equal(t, "äöü…", api.Shorten("äöüß", 3))
	assert.Equal(t, "äöü…", api.Shorten(api.Shorten("äöüßx", 3), 3))
}

// The note of an event is not longer than the API server accepts, and valid UTF-8.
func TestEventNote(t *testing.T) {
	const most = 1024
	whole := strings.Repeat("x", most)
	assert.Equal(t, whole, api.EventNote(whole))
	assert.Equal(t, whole[:most-3]+"…", api.EventNote(whole+"x"))
	cut := api.EventNote(strings.Repeat("é", most)) // the limit is in the middle of a character
	assert.True(t, utf8.ValidString(cut))
	assert.Len(t, cut, most-1)
}

func TestCount(t *testing.T) {
	assert.Equal(t, "3 addresses", api.Count(3, "address"))
	assert.Equal(t, "1 address", api.Count(1, "address"))
	assert.Equal(t, "2 ports", api.Count(2, "port"))
}
