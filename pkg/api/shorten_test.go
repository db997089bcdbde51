package api_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestShorten(t *testing.T) {
	assert.Empty(t, api.Shorten("", 3))
	assert.Equal(t, "äöü", api.Shorten("äöü", 3))
	assert.Equal(t, "äöü…", api.Shorten("äöüß", 3))
	assert.Equal(t, "äöü…", api.Shorten(api.Shorten("äöüßx", 3), 3))
}
