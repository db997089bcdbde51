package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// version returns the two files of a certificate for name.
func version(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	pair, err := selfSigned(name, time.Now())
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
}

func names(t *testing.T, pair *tls.Certificate) []string {
	t.Helper()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	return leaf.DNSNames
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	k := &keyPair{certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key")}
	write := func(file string, data []byte) { require.NoError(t, os.WriteFile(file, data, 0o600)) }
	require.Error(t, k.load(), "no files yet")

	oldCert, oldKey := version(t, "old")
	write(k.certFile, oldCert)
	write(k.keyFile, oldKey)
	require.NoError(t, k.load())
	assert.Equal(t, []string{"old"}, names(t, k.current()))

	newCert, newKey := version(t, "new")
	write(k.certFile, newCert)
	k.reload() // the key is still the old one
	assert.Equal(t, []string{"old"}, names(t, k.current()))
	write(k.keyFile, newKey)
	k.reload()
	assert.Equal(t, []string{"new"}, names(t, k.current()))

	loaded := k.current()
	k.reload()
	assert.Same(t, loaded, k.current(), "nothing has changed")
}
