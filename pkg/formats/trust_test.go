package formats

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/pki"
)

// root returns the certificate of a new CA with that common name.
func root(t require.TestingT, name string) *x509.Certificate {
	key, err := pki.GenerateKey(pki.Ed25519)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now, NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// An alias is printable, bounded, and differs for roots with the same subject.
func TestAlias(t *testing.T) {
	for name, want := range map[string]string{
		"one":                    "CN=one ",
		"a ~":                    "CN=a ~ ",
		"tab\tdelete\x7f":        "CN=tab?delete? ",
		"🦊":                      "CN=? ",
		strings.Repeat("a", 125): "CN=" + strings.Repeat("a", 125) + " ",
		strings.Repeat("a", 126): "CN=" + strings.Repeat("a", 125) + " ",
	} {
		got := alias(root(t, name))
		assert.Equal(t, want, got[:max(0, len(got)-16)])
		assert.NotEqual(t, got, alias(root(t, name)))
	}
}

// A truststore has the same bytes only for the same roots and password. It has all roots, including
// those that share a subject or have one that Java's strings cannot hold.
func TestTruststore(t *testing.T) {
	one, two := root(t, "one"), root(t, "two")
	roots := []*x509.Certificate{one, two, root(t, "two"), root(t, "TWO"), root(t, "🦊"), root(t, strings.Repeat("long", 100))}
	bundle := pki.NewBundle(roots...)
	for _, password := range []string{"", "s3cret!"} {
		file, err := MakeTruststore(bundle, password)
		require.NoError(t, err)
		truststores.keys, truststores.files = nil, nil // as in another process
		again, err := MakeTruststore(bundle, password)
		require.NoError(t, err)
		assert.Equal(t, file, again)
		held, err := pkcs12.DecodeTrustStore(file, Pair{Password: password}.password())
		require.NoError(t, err)
		assert.Equal(t, bundle.Certificates(), held)
		other, err := MakeTruststore(bundle, "another")
		require.NoError(t, err)
		assert.NotEqual(t, file[len(file)-100:], other[len(other)-100:])
		fewer, err := MakeTruststore(pki.NewBundle(roots[1:]...), password)
		require.NoError(t, err)
		assert.NotEqual(t, file[len(file)-100:], fewer[len(fewer)-100:])
	}
	defaulted, err := MakeTruststore(bundle, DefaultPassword)
	require.NoError(t, err)
	empty, err := MakeTruststore(bundle, "")
	require.NoError(t, err)
	assert.Equal(t, defaulted, empty)
	for i := range truststores.most {
		_, err := MakeTruststore(bundle, fmt.Sprintf("another %d", i))
		require.NoError(t, err)
	}
	assert.Len(t, truststores.keys, truststores.most)

	aliases := map[string]bool{}
	for _, c := range roots {
		aliases[strings.ToLower(alias(c))] = true
	}
	assert.Len(t, aliases, len(roots))
}

// A file is made once, and others are made meanwhile. The one with the usual password stays.
func TestTruststoresAreMadeOnce(t *testing.T) {
	r, made := recent{most: 2}, 0
	get := func(name string) string {
		file, err := r.of(truststoreKey{password: name}, func() (File, error) {
			made++
			if assert.True(t, r.mu.TryLock(), "others need not wait until a file is made") {
				r.mu.Unlock()
			}
			return NewFile([]byte(name)), nil
		})
		require.NoError(t, err)
		return string(file.Content)
	}
	for _, c := range []struct {
		name string
		made int
	}{{"one", 1}, {"one", 1}, {"two", 2}, {"three", 3}, {"two", 3}, {"one", 4}} {
		assert.Equal(t, c.name, get(c.name))
		assert.Equal(t, c.made, made, c.name)
	}

	roots := NewRoots(pki.NewBundle(root(t, "one")))
	usual, err := roots.Truststore("")
	require.NoError(t, err)
	truststores.keys, truststores.files = nil, nil // as if many others had been made
	again, err := roots.Truststore(DefaultPassword)
	require.NoError(t, err)
	assert.Same(t, &usual.Content[0], &again.Content[0])
}

// Files of the roots are distinguished from files of other roots, and from damaged files.
func TestRootsDigest(t *testing.T) {
	bundle := pki.NewBundle(root(t, "one"), root(t, "two"))
	files, err := All().MakeRoots(bundle, "")
	require.NoError(t, err)
	require.Equal(t, bundle.PEM(), files[CAFile])
	want := RootsDigest(files)
	files["tls.crt"] = []byte("of the pair")
	assert.Equal(t, want, RootsDigest(files))
	for _, name := range OfRoots().Files() {
		whole := files[name]
		for _, damaged := range [][]byte{nil, whole[1:], whole[:len(whole)-1], append(bytes.Clone(whole), '\n'), files["tls.crt"]} {
			files[name] = damaged
			assert.NotEqual(t, want, RootsDigest(files), name)
		}
		delete(files, name)
		assert.NotEqual(t, want, RootsDigest(files), name)
		files[name] = whole
	}
	assert.Zero(t, RootsDigest(map[string][]byte{"tls.crt": nil}))
	later, err := All().MakeRoots(pki.NewBundle(root(t, "one")), "")
	require.NoError(t, err)
	assert.NotEqual(t, want, RootsDigest(later))
	only, err := Of(&CA).MakeRoots(bundle, "")
	require.NoError(t, err)
	assert.NotEqual(t, want, RootsDigest(only))
	assert.Len(t, only, 1)
}
