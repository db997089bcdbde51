package formats

import (
	"bytes"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/bounded"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newPair returns a certificate of a new CA, with a chain of two, and its key.
func newPair(t require.TestingT, algorithm pki.KeyAlgorithm) Pair {
	key, err := pki.GenerateKey(algorithm)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, now, now.Add(time.Hour))
	require.NoError(t, err)
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	leaf := &x509.Certificate{DNSNames: []string{"web.shop.svc"}, NotBefore: now, NotAfter: now.Add(time.Hour), SerialNumber: serial}
	der, err := x509.CreateCertificate(nil, leaf, root, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return Pair{Cert: pki.EncodeCertificates(cert, root), Key: keyPEM}
}

// No two formats share a name, an annotation or a file, and none has a file of the pair.
func TestNamesOfFormats(t *testing.T) {
	taken := map[string]bool{}
	for _, name := range []string{"file tls.crt", "file tls.key", "name cert", "name key", "name ca", "name dir"} {
		taken[name] = true
	}
	for f := range All().Formats() {
		assert.Regexp(t, "^[a-z]+$", f.Name)
		assert.Regexp(t, "^[a-z-]*$", f.Annotation)
		assert.Regexp(t, `^[a-z0-9.]+$`, f.Word)
		assert.Regexp(t, "^(TLS_[A-Z]+_FILE)?$", f.Variable)
		assert.NotEmpty(t, f.Files)
		names := []string{"name " + f.Name, "word " + f.Word}
		for kind, name := range map[string]string{"annotation ": f.Annotation, "variable ": f.Variable} {
			if name != "" {
				names = append(names, kind+name)
			}
		}
		for _, file := range f.Files {
			assert.NotEmpty(t, file)
			names = append(names, "file "+file)
		}
		for _, name := range names {
			assert.False(t, taken[name], name)
			taken[name] = true
		}
		if f.CredentialBundle {
			assert.Len(t, f.Files, 1, f.Name)
		}
	}
	assert.Equal(t, All(), Of(list...))
}

// A file that was made of a pair holds that pair and no other, and a damaged file holds none.
func TestWhatIsMadeIsHeld(t *testing.T) {
	for f := range (All() &^ OfRoots()).Formats() {
		t.Run(f.Name, func(t *testing.T) {
			bounded.Checks(t, 20)
			rapid.Check(t, func(t *rapid.T) {
				algorithm := rapid.SampledFrom([]pki.KeyAlgorithm{pki.ECDSAP256, pki.ECDSAP384, pki.Ed25519}).Draw(t, "algorithm")
				pair, other := newPair(t, algorithm), newPair(t, algorithm)
				if rapid.Bool().Draw(t, "without a newline") {
					pair.Key = bytes.TrimSpace(pair.Key)
				}
				data, err := Of(f).Make(pair)
				require.NoError(t, err)
				require.ElementsMatch(t, f.Files, slices.Collect(maps.Keys(data)))
				recorded := SaltedDigest(data, pair)
				require.Equal(t, f.Salted, recorded != "")
				held := func(pair Pair) bool { return HeldIn(data, pair, recorded).Has(f) }
				require.True(t, held(pair))
				require.False(t, held(other))
				require.Empty(t, Outdated(data, pair, recorded))
				require.ElementsMatch(t, slices.DeleteFunc(slices.Clone(f.Files), func(name string) bool { return name == DERKeyFile }), Outdated(data, other, recorded))
				require.Equal(t, f.Salted, len(Outdated(data, other, "")) == 0, "nothing was recorded")
				require.Equal(t, f.Salted || !f.PrivateKey, held(Pair{Cert: pair.Cert, Key: other.Key}), "a key of another certificate is no pair")
				require.False(t, held(Pair{Cert: other.Cert, Key: pair.Key}))
				again, err := Of(f).Make(pair)
				require.NoError(t, err)
				require.True(t, HeldIn(again, pair, SaltedDigest(again, pair)).Has(f))
				require.Equal(t, f.Salted, !HeldIn(again, pair, recorded).Has(f))
				require.Empty(t, Outdated(again, pair, recorded))
				require.Equal(t, f.Salted, len(Outdated(again, other, recorded)) == 0, "somebody has written other files")
				require.Equal(t, f.Salted, !HeldIn(data, pair, "").Has(f), "nothing was recorded")

				name := rapid.SampledFrom(f.Files).Draw(t, "file")
				file := data[name]
				data[name] = file[:rapid.IntRange(0, len(file)-2).Draw(t, "length")]
				require.False(t, held(pair), "cut off")
				data[name] = append(bytes.Clone(file), file...)
				require.False(t, held(pair), "twice")
				delete(data, name)
				require.False(t, held(pair), "missing")
			})
		})
	}
}

// For any content of a Secret, checking it ends, and finds no format.
func FuzzHeldIn(f *testing.F) {
	pair := newPair(f, pki.Ed25519)
	made, err := All().Make(pair)
	require.NoError(f, err)
	for _, file := range made {
		f.Add(file[1:])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		data := map[string][]byte{}
		for _, name := range All().Files() {
			data[name] = file
		}
		require.Zero(t, HeldIn(data, newPair(t, pki.Ed25519), SaltedDigest(data, pair)))
	})
}

func TestSet(t *testing.T) {
	assert.Empty(t, slices.Collect(Set(0).Formats()))
	assert.Empty(t, Set(0).Files())
	assert.Equal(t, []*Format{&Combined}, slices.Collect(Of(&Combined).Formats()))
	assert.False(t, Set(0).Has(&Combined))
	assert.Zero(t, WithAny([]string{"tls.crt", "tls.key"}))
	assert.Equal(t, Of(&Combined), WithAny([]string{"a", CombinedFile}))
}

// A format that cannot be made is an error, and nothing is made.
func TestMakeFails(t *testing.T) {
	before := Combined.Make
	t.Cleanup(func() { Combined.Make = before })
	no := errors.New("no")
	Combined.Make = func(Pair) (map[string][]byte, error) { return nil, no }
	made, err := All().Make(Pair{})
	require.ErrorIs(t, err, no)
	assert.ErrorContains(t, err, CombinedFile)
	assert.Nil(t, made)
}

func TestHoldsPrivateKey(t *testing.T) {
	for file, want := range map[string]bool{CombinedFile: true, KeystoreFile: true, CAFile: false, TruststoreFile: false, "tls.crt": false} {
		assert.Equal(t, want, HoldsPrivateKey(file), file)
	}
}
