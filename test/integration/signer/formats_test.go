package signer

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/skip"
)

// keystoreOf returns an error unless the Secret's keystore has its pair, and no root.
func keystoreOf(secret *corev1.Secret, password string) error {
	key, leaf, chain, err := pkcs12.DecodeChain(secret.Data[formats.KeystoreFile], password)
	if err != nil {
		return err
	}
	served, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return err
	}
	keyPEM, err := pki.ParseKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	if !leaf.Equal(served[0]) || len(chain) != len(served)-1 || !keyPEM.(interface{ Equal(crypto.PrivateKey) bool }).Equal(key) {
		return fmt.Errorf("the keystore has another pair, or %d certificates after it", len(chain))
	}
	return nil
}

func waitKeystore(t *testing.T, ns, password string) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	harness.Eventually(t, func() error {
		secret = getSecret(t, ns, "web-tls")
		return keystoreOf(secret, password)
	})
	return secret
}

// A keystore comes with the certificate, is left alone although it is salted, is repaired, is
// written anew for another password, and goes; the certificate stays all the while.
func TestKeystore(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationFormats, "keystore.p12, der")
	first := r.waitGood(t, ns, "web", "web-tls")
	require.Len(t, first.secret.Data, 5)
	require.NoError(t, keystoreOf(first.secret, "changeit"))
	waitRest(t, ns)
	assert.Equal(t, first.secret.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion)

	for name, value := range map[string]any{"removed": nil, "emptied": "", "changed": []byte("x"), "cut off": first.secret.Data[formats.KeystoreFile][:300]} {
		patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{formats.KeystoreFile: value}})
		waitKeystore(t, ns, "changeit")
		t.Log(name)
	}
	annotate(t, ns, "web", map[string]any{api.AnnotationKeystorePassword: "s3cret!"})
	secret := waitKeystore(t, ns, "s3cret!")
	assert.Equal(t, "s3cret!", secret.Annotations[api.AnnotationKeystorePassword])

	annotate(t, ns, "web", map[string]any{api.AnnotationKeystorePassword: nil, api.AnnotationFormats: nil})
	harness.Eventually(t, func() error {
		if secret = getSecret(t, ns, "web-tls"); len(secret.Data) != 2 || secret.Annotations[api.AnnotationKeystorePassword] != "" {
			return fmt.Errorf("%d keys, annotations %v", len(secret.Data), secret.Annotations)
		}
		return nil
	})
	assert.Equal(t, first.secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSCertKey])
	assert.Equal(t, first.secret.UID, secret.UID)
}

// output runs a command that has to succeed, and returns what it says.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// writeFiles writes data of the Secret to a directory, and returns that.
func writeFiles(t *testing.T, secret *corev1.Secret, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), secret.Data[name], 0o600))
	}
	return dir
}

// clientPair returns a client's certificate of the shared signer's CA, which issues none itself.
func clientPair(t *testing.T) tls.Certificate {
	t.Helper()
	of := getSecret(t, "sys-shared", api.CASecretName)
	caKey, err := pki.ParseKey(of.Data["generation-1.key"])
	require.NoError(t, err)
	ca, err := pki.ParseCertificates(of.Data["generation-1.crt"])
	require.NoError(t, err)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, template, ca[0], key.Public(), caKey)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// answers dials the port as the Service's client, which trusts the Secret's ca.crt alone.
func answers(secret *corev1.Secret, port int, name string, pairs ...tls.Certificate) (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data[formats.CAFile])
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: roots, ServerName: name, Certificates: pairs, MinVersion: tls.VersionTLS12})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// HAProxy serves the file with the key and the certificates.
func TestHAProxyReadsTheCombinedFile(t *testing.T) {
	skip.WithoutPrograms(t, "haproxy")
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationFormats, "combined.pem,ca.crt")
	secret := r.waitGood(t, ns, "web", "web-tls").secret
	dir := writeFiles(t, secret, formats.CombinedFile)
	port := process.PortFor(t, "127.0.0.1")
	config := filepath.Join(dir, "haproxy.cfg")
	text := fmt.Sprintf("defaults\n  mode http\n  timeout client 5s\n  timeout connect 5s\n  timeout server 5s\nfrontend web\n  bind 127.0.0.1:%d ssl crt %s\n  http-request return status 200\n",
		port, filepath.Join(dir, formats.CombinedFile))
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	cmd := exec.CommandContext(t.Context(), "haproxy", "-db", "-f", config)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	harness.Eventually(t, func() error {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(secret.Data[formats.CAFile])
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: roots, ServerName: "web." + ns + ".svc", MinVersion: tls.VersionTLS12})
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// A CA bundle that changes costs one write for each Secret that has its roots, and nothing else: no
// certificate, no read and no condition.
func TestRootsOfASecretFollowTheBundle(t *testing.T) {
	const n = 6
	ns := newNamespace(t)
	names := api.DefaultLimits().Constraints()
	first := newGeneration(t, 1, names, nil)
	second := newGeneration(t, 2, names, first)
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	count := requests{of: ns}
	h := &held{changed: make(chan struct{})}
	h.ca.Store(first.signing())
	startUnder(t, h, sign, api.DefaultLimits(), count.wrap)
	makeService(t, ns, "plain")
	waitServed(t, ns, "plain", "plain-tls", first.signing())
	before := map[string]served{}
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		makeService(t, ns, name, api.AnnotationFormats, "ca.crt,truststore.p12,combined.pem")
		before[name] = waitServed(t, ns, name, name+"-tls", first.signing())
	}
	waitRest(t, ns)
	count.take()

	prepared := first.signing() // which the second does not sign for yet
	prepared.Bundle = pki.NewBundle(first.root, second.root)
	h.set(prepared)
	for name, old := range before {
		var secret *corev1.Secret
		harness.Eventually(t, func() error {
			if secret = getSecret(t, ns, name+"-tls"); !bytes.Equal(secret.Data[formats.CAFile], prepared.Bundle.PEM()) {
				return fmt.Errorf("%s has the old roots", name)
			}
			return nil
		})
		held, err := pkcs12.DecodeTrustStore(secret.Data[formats.TruststoreFile], "changeit")
		require.NoError(t, err)
		assert.Equal(t, prepared.Bundle.Certificates(), held)
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, formats.CombinedFile} {
			assert.Equal(t, old.secret.Data[key], secret.Data[key], "%s of %s", key, name)
		}
	}
	waitRest(t, ns)
	assert.Equal(t, map[string]int{"PATCH secrets": n}, count.take())
}
