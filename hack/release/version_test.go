package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	for asked, want := range map[string]string{
		"v1.2.3":                   "v1.2.3",
		"v1.2.3-rc.1":              "v1.2.3-rc.1",
		"v1.2.3-14-g8d3d9f6":       "v1.2.3-14-g8d3d9f6",
		"v1.2.3-14-g8d3d9f6-dirty": "v1.2.3-14-g8d3d9f6",
		"8d3d9f6":                  "v0.0.0-g8d3d9f6",
		"0123456-dirty":            "v0.0.0-g0123456",
	} {
		got, err := versionOf(asked)
		require.NoError(t, err, asked)
		require.Equal(t, want, got, asked)
	}
	for _, asked := range []string{"", "1.2.3", "v1.2", "dev", "v1.2.3+build", "v1.2.3-01", "v1.2.3 "} {
		_, err := versionOf(asked)
		require.ErrorContains(t, err, "VERSION: ", asked)
	}
}
