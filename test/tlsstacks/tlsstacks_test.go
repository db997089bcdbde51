package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRequiredStacksAreKnown(t *testing.T) {
	assert.NoError(t, known([]string{"openssl", "java"}))
	assert.ErrorContains(t, known([]string{"opensll"}), `--require: "opensll": must be one or more of openssl, curl`)
}

// The README lists seven stacks: make ci-full fails if one of them is missing.
func TestCIRequiresEveryStack(t *testing.T) {
	script, err := os.ReadFile("../../.ci/long")
	require.NoError(t, err)
	_, required, found := strings.Cut(string(script), "tlsstacks REQUIRE=")
	require.True(t, found)
	required, _, _ = strings.Cut(required, "\n")
	names := strings.Split(required, ",")
	require.NoError(t, known(names))
	programs := map[string]bool{}
	for _, s := range stacks() {
		assert.Subset(t, names, s.needs, s.name)
		name, _, _ := strings.Cut(s.name, " ") // OpenSSL strict is OpenSSL
		programs[name] = true
	}
	assert.Len(t, programs, 7)
}
