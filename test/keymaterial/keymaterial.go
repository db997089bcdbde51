// Package keymaterial finds the private part of a key in text: what tests look for
// in errors, logs, events and metrics.
package keymaterial

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// AssertNone fails the test if the text holds any piece of the private scalar of a
// P-256 key in PEM: as it is in the PEM, in hex, or as bytes. What names the text in
// the failure.
func AssertNone(t testing.TB, key []byte, text, what string) {
	t.Helper()
	scalar := Scalar(t, key)
	for i := 0; i < 30; i += 6 { // 6 bytes are 8 characters, and no line of PEM ends between
		piece := scalar[i : i+6]
		for _, form := range []string{base64.StdEncoding.EncodeToString(piece), hex.EncodeToString(piece), string(piece)} {
			if strings.Contains(text, form) {
				t.Errorf("%s: holds key material", what)
			}
		}
	}
}

// Scalar returns the 32 secret bytes of a P-256 key in PEM: after 36 that are public
// (RFC 5208, RFC 5915).
func Scalar(t testing.TB, key []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(key)
	require.NotNil(t, block)
	return block.Bytes[36:68]
}
