package formats

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/pki"
)

// The keystore has the password that was asked for, and no root even if one is served.
func TestKeystore(t *testing.T) {
	pair := newPair(t, pki.RSA2048) // served with its root
	pair.Password = "s3cret!"
	made, err := Keystore.Make(pair)
	require.NoError(t, err)
	assert.Less(t, len(made[KeystoreFile]), len(pair.Cert)+len(pair.Key)+keystoreOverhead)
	var (
		key   any
		leaf  *x509.Certificate
		chain []*x509.Certificate
	)
	notInStrictFIPS(func() { key, leaf, chain, err = pkcs12.DecodeChain(made[KeystoreFile], "s3cret!") })
	require.NoError(t, err)
	assert.Empty(t, chain)
	want, wantLeaf, _, err := pair.parse()
	require.NoError(t, err)
	assert.Equal(t, want, key)
	assert.Equal(t, wantLeaf.Raw, leaf.Raw)

	assert.True(t, Keystore.Holds(pair, made))
	pair.Password = ""
	assert.False(t, Keystore.Holds(pair, made), "another password")
}

// Where the program may use approved algorithms alone, a keystore is no panic.
func TestKeystoreInStrictFIPS(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKeystore(IsBounded)?$", "-test.v") //nolint:gosec // this test
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "--- PASS: TestKeystoreIsBounded")
}

// A file of anybody's making costs no more than what Make writes does.
func TestKeystoreIsBounded(t *testing.T) {
	pair := newPair(t, pki.ECDSAP256)
	key, leaf, _, err := pair.parse()
	require.NoError(t, err)
	for iterations, want := range map[int]bool{1: true, 10_000: true, 10_001: false} {
		var file []byte
		notInStrictFIPS(func() {
			file, err = pkcs12.Modern2023.WithIterations(iterations).Encode(key, leaf, nil, DefaultPassword)
		})
		require.NoError(t, err)
		assert.Equal(t, want, Keystore.Holds(pair, map[string][]byte{KeystoreFile: file}), iterations)
		assert.Equal(t, want, checkIterations(file) == nil, iterations)
	}
	made, err := Keystore.Make(pair)
	require.NoError(t, err)
	assert.False(t, Keystore.Holds(pair, map[string][]byte{KeystoreFile: append(made[KeystoreFile], make([]byte, 1<<20)...)}))
}
