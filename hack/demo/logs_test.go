package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSearchLog(t *testing.T) {
	for name, test := range map[string]struct{ log, found string }{
		"clean":              {"one\nthe private key was erased\n", ""},
		"a refused request":  {`"pods is Forbidden: User cannot list"`, "Forbidden"},
		"a key":              {"one\n-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----"},
		"a key within JSON":  {`{"key":"-----BEGIN EC PRIVATE KEY-----\nMHc"}`, "-----BEGIN EC PRIVATE KEY-----"},
		"a certificate only": {"-----BEGIN CERTIFICATE-----", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.log")
			require.NoError(t, os.WriteFile(file, []byte(test.log), 0o600))
			_, err := searchLog(file, refused, privateKey)
			if test.found == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.found)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	before := []string{"args:", "- a", "env:", "name: web"}
	after := []string{"args:", "- a", "- b", "env:", "volumes:"}
	assert.Equal(t, []string{"  args:", "  - a", "+ - b", "  env:", "+ volumes:", "- name: web"}, diff(before, after))
	assert.Equal(t, []string{"  args:"}, diff(before[:1], before[:1]))
	assert.Equal(t, []string{"+ args:"}, diff(nil, before[:1]))
}
