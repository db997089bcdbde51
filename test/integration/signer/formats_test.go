package signer

import (
	"crypto"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
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
	annotate(t, ns, "web", map[string]any{api.AnnotationKeystorePassword: "short"})
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
	assert.Contains(t, c.Message, `servingcert.dev/keystore-password: "5 bytes": must be 6 to 128 bytes`)
	annotate(t, ns, "web", map[string]any{api.AnnotationKeystorePassword: "s3cret!", api.AnnotationFormats: "keystore.p12,jks"})
	harness.Eventually(t, func() error {
		c := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
		if want := `"jks" is not written: Java reads keystore.p12`; !strings.Contains(c.Message, want) {
			return fmt.Errorf("%s: want %s", c.Message, want)
		}
		return nil
	})
	waitRest(t, ns)
	require.NoError(t, keystoreOf(getSecret(t, ns, "web-tls"), "s3cret!"))

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

// Java, keytool and OpenSSL read the keystore, for each kind of key.
func TestProgramsReadTheKeystore(t *testing.T) {
	for _, tool := range []string{"javac", "keytool", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	r := sharedSigner(t)
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.RSA2048, pki.Ed25519} {
		t.Run(string(algorithm), func(t *testing.T) {
			ns := newNamespace(t)
			makeService(t, ns, "web", api.AnnotationFormats, "keystore.p12", api.AnnotationKeystorePassword, "s3cret!", api.AnnotationKeyAlgorithm, string(algorithm))
			served := r.waitGood(t, ns, "web", "web-tls")
			file := filepath.Join(t.TempDir(), formats.KeystoreFile)
			require.NoError(t, os.WriteFile(file, served.secret.Data[formats.KeystoreFile], 0o600))
			out, err := exec.CommandContext(t.Context(), "keytool", "-list", "-keystore", file, "-storepass", "s3cret!").CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "PrivateKeyEntry")
			out, err = exec.CommandContext(t.Context(), "openssl", "pkcs12", "-info", "-noenc", "-in", file, "-passin", "pass:s3cret!").CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "PBES2, PBKDF2, AES-256-CBC")
			assert.Contains(t, string(out), "BEGIN PRIVATE KEY")

			cmd := exec.CommandContext(t.Context(), "java", "testdata/Server.java")
			cmd.Env = append(os.Environ(), "SERVER_SSL_KEYSTORE=file:"+file, "SERVER_SSL_KEYSTOREPASSWORD=s3cret!", "SERVER_SSL_KEYSTORETYPE=PKCS12")
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			var port int
			_, err = fmt.Fscan(stdout, &port)
			require.NoError(t, err)
			leaf, err := pki.ParseCertificates(served.secret.Data[corev1.TLSCertKey])
			require.NoError(t, err)
			conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the leaf is compared
			require.NoError(t, err)
			defer conn.Close()
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.Equal(t, "ok", string(answer))
			assert.True(t, leaf[0].Equal(conn.ConnectionState().PeerCertificates[0]))
		})
	}
}
