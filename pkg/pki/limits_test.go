package pki

import (
	"bytes"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/bounded"
)

// TestSizesAreCheckedBeforeParsing: the data beyond the limit is not PEM. An error about that
// would mean that it was parsed.
func TestSizesAreCheckedBeforeParsing(t *testing.T) {
	block := func(kind string, size int) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: make([]byte, size)})
	}
	for name, tc := range map[string]struct {
		parse func([]byte) error
		data  []byte
		says  string
	}{
		"key":         {func(d []byte) error { _, err := ParseKey(d); return err }, bytes.Repeat([]byte("x"), 195<<10), "199680 bytes: must be at most 8192"},
		"foreign key": {func(d []byte) error { _, err := ParseForeignKey(d); return err }, bytes.Repeat([]byte("x"), 195<<10), "199680 bytes: must be at most 8192"},
		"file":        {func(d []byte) error { _, err := ParseCertificates(d); return err }, bytes.Repeat([]byte("x"), 1<<20), "1048576 bytes: must be at most 262144"},
		"certificate": {func(d []byte) error { _, err := ParseCertificates(d); return err }, block(pemCertificate, 100<<10), "certificate 1: 102400 bytes: must be at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			allocated := bounded.Allocated(func() { err = tc.parse(tc.data) })
			require.EqualError(t, err, tc.says)
			assert.Less(t, allocated, uint64(len(tc.data)))
		})
	}
}

// TestEveryKeyFitsTheLimit: the largest key that is issued, and an RSA key with twice the bits
// that an external CA may have.
func TestEveryKeyFitsTheLimit(t *testing.T) {
	key, err := GenerateKey(RSA4096)
	require.NoError(t, err)
	data, err := EncodeKey(key)
	require.NoError(t, err)
	assert.Less(t, 2*len(data), MaxKey, "the length of a key grows with its bits")
}
