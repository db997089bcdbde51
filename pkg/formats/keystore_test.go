package formats

import (
	"crypto/x509"
	"encoding/asn1"
	"math/big"
	"os"
	"os/exec"
	"strings"
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

// A count of iterations is found wherever a program would, and what only looks like DER is no error.
func TestCheckIterations(t *testing.T) {
	der := func(v any) []byte {
		b, err := asn1.Marshal(v)
		require.NoError(t, err)
		return b
	}
	type derivation struct {
		Salt       []byte
		Iterations int64
	}
	for name, c := range map[string]struct {
		der  []byte
		want bool
	}{
		"the most":                           {der(derivation{nil, maxIterations}), true},
		"one more":                           {der(derivation{nil, maxIterations + 1}), false},
		"after others":                       {append(der(1), der(maxIterations+1)...), false},
		"too large for 64 bits":              {der(new(big.Int).Lsh(big.NewInt(1), 70)), false},
		"in a string":                        {der(der(derivation{nil, maxIterations + 1})), false},
		"in a string in a string":            {der(der([][]byte{der(derivation{nil, maxIterations + 1})})), false},
		"in a string, the most":              {der(der(derivation{nil, maxIterations})), true},
		"a salt":                             {der(derivation{[]byte("saltsalt"), 1}), true},
		"an empty salt":                      {der(derivation{[]byte{}, 1}), true},
		"a salt that begins like DER":        {der(derivation{[]byte{0x30, 0x01, 0x02, 0x03}, 1}), true},
		"a salt that is an INTEGER":          {der(derivation{der(maxIterations + 1), 1}), true},
		"no DER":                             {[]byte{0x30, 0x05, 0x02}, false},
		"no DER inside of a constructed one": {[]byte{0x30, 0x02, 0x02, 0x05}, false},
	} {
		assert.Equal(t, c.want, checkIterations(c.der) == nil, name)
	}
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
