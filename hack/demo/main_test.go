package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSearchLogs(t *testing.T) {
	for name, test := range map[string]struct{ log, found string }{
		"clean":              {"one\nthe private key was erased\n", ""},
		"a refused request":  {`"pods is Forbidden: User cannot list"`, "Forbidden"},
		"a key":              {"one\n-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----"},
		"a key within JSON":  {`{"key":"-----BEGIN EC PRIVATE KEY-----\nMHc"}`, "-----BEGIN EC PRIVATE KEY-----"},
		"a certificate only": {"-----BEGIN CERTIFICATE-----", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x.log"), []byte(test.log), 0o600))
			_, err := searchLogs(dir, "forbidden|"+privateKey)
			if test.found == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.found)
			}
		})
	}
}
