package formats

import (
	"bytes"
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/keymaterial"
)

// The keystore has the requested password, and no root even if one is served.
func TestKeystore(t *testing.T) {
	pair := newPair(t, pki.RSA2048) // served with its root
	pair.Password = "s3cret!"
	pbmac1 := []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0xd, 1, 5, 14} // id-PBMAC1, RFC 8018
	for _, f := range []*Format{&Keystore, &PBMAC1} {
		made, err := f.Make(pair)
		require.NoError(t, err)
		file := made[f.Files[0]]
		assert.Equal(t, f == &PBMAC1, bytes.Contains(file, pbmac1), f.Name)
		var (
			key   any
			leaf  *x509.Certificate
			chain []*x509.Certificate
		)
		notInStrictFIPS(func() { key, leaf, chain, err = pkcs12.DecodeChain(file, "s3cret!") })
		require.NoError(t, err)
		assert.Empty(t, chain)
		want, wantLeaf, _, err := pair.parse()
		require.NoError(t, err)
		assert.Equal(t, want, key)
		assert.Equal(t, wantLeaf.Raw, leaf.Raw)
	}
}

// Making a keystore does not panic if only approved algorithms are allowed.
func TestKeystoreInStrictFIPS(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKeystore$", "-test.v") //nolint:gosec // this test
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "--- PASS: TestKeystore")
}

// A file that anyone may have written is not decoded: it sets the number of iterations of a key derivation itself, also
// in its encrypted part.
func TestAKeystoreIsNotDecoded(t *testing.T) {
	pair := newPair(t, pki.ECDSAP256)
	_, _, err := pkcs12.Decode(keymaterial.Keystore(DefaultPassword, 1), DefaultPassword)
	require.ErrorContains(t, err, "error decrypting PKCS#8 shrouded key bag", "who decodes it has derived the key")
	takesSeconds := keymaterial.Keystore(DefaultPassword, 1<<20)
	data := map[string][]byte{KeystoreFile: takesSeconds, PBMAC1File: takesSeconds}
	allocations := testing.AllocsPerRun(1, func() { HeldIn(data, pair, "") })
	assert.Less(t, allocations, 100.0, "decoding allocates more often")
	assert.Zero(t, HeldIn(data, pair, ""))

	made, err := Keystore.Make(pair)
	require.NoError(t, err)
	recorded := SaltedDigest(made, pair)
	pair.Password = "s3cret!"
	assert.False(t, HeldIn(made, pair, recorded).Has(&Keystore), "another password")
}

func TestCheckPassword(t *testing.T) {
	for password, want := range map[string]string{
		strings.Repeat("a", MinPassword):   "",
		strings.Repeat("a", MaxPassword):   "",
		strings.Repeat("a", MinPassword-1): "must be 6 to 128 bytes",
		strings.Repeat("a", MaxPassword+1): "must be 6 to 128 bytes",
		"!azAZ09~":                         "",
		"with space":                       "must be printable ASCII without spaces and dollar signs",
		"dollar$":                          "must be printable ASCII without spaces and dollar signs",
		"delete\x7f":                       "must be printable ASCII without spaces and dollar signs",
		"pässword":                         "must be printable ASCII without spaces and dollar signs",
	} {
		assert.Equal(t, want, CheckPassword(password), "%q", password)
	}
}
