package certfiles

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane/certs"
)

// pair returns a certificate and its key in PEM.
func pair(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	ca, err := certs.New(t.TempDir(), "ca", "ca")
	require.NoError(t, err)
	made, err := ca.Issue(name, &x509.Certificate{})
	require.NoError(t, err)
	return made.CertPEM, made.KeyPEM
}

func write(t *testing.T, dir string, certPEM, keyPEM []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), certPEM, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), keyPEM, 0o600))
}

func TestCertFiles(t *testing.T) {
	var log bytes.Buffer
	logger := funcr.New(func(prefix, args string) { log.WriteString(args + "\n") }, funcr.Options{})
	dir := filepath.Join(t.TempDir(), "later")
	f := New(dir, logger)
	chain := func() int {
		cert, err := f.GetCertificate(nil)
		require.NoError(t, err)
		return len(cert.Certificate)
	}

	f.Load()
	f.Load()
	_, err := f.GetCertificate(nil)
	require.ErrorIs(t, err, ErrNoCertificate)
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("waiting for the certificate")), "said once: %s", log.String())

	cert, key := pair(t, "first")
	write(t, dir, cert, key)
	f.Load()
	assert.Equal(t, 1, chain())

	issuer, _ := pair(t, "issuer")
	write(t, dir, append(bytes.Clone(cert), issuer...), key)
	f.Load()
	assert.Equal(t, 2, chain(), "only the chain changed, under the same leaf and key")

	other, _ := pair(t, "other")
	write(t, dir, other, key)
	f.Load()
	assert.Equal(t, 2, chain(), "a certificate without its key leaves the last pair in place")
	assert.Contains(t, log.String(), "serving the previous certificate")

	require.NoError(t, os.RemoveAll(dir))
	f.Load()
	assert.Equal(t, 2, chain(), "so do files that are gone")
	assert.NotContains(t, log.String(), "PRIVATE KEY")
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tls.crt")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.EqualError(t, CheckDir(""), `"": must be a directory`)
	assert.EqualError(t, CheckDir(file), fmt.Sprintf("%q: is a file: must be the directory that contains tls.crt and tls.key", file))
	assert.NoError(t, CheckDir(dir))
	assert.NoError(t, CheckDir(filepath.Join(dir, "later")))
}
