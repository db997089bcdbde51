//go:build long

package signer

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/skip"
)

// Java, keytool and OpenSSL read keystore and truststore, for each kind of key. The Java program
// finds them by Spring Boot's variables and Kafka's properties, and asks its clients for certificates.
func TestProgramsReadTheKeystore(t *testing.T) {
	skip.WithoutPrograms(t, "javac", "keytool", "openssl")
	r := sharedSigner(t)
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.RSA2048, pki.Ed25519} {
		t.Run(string(algorithm), func(t *testing.T) {
			ns := newNamespace(t)
			makeService(t, ns, "web", api.AnnotationFormats, "ca.crt,keystore.p12,truststore.p12", api.AnnotationKeystorePassword, "s3cret!", api.AnnotationKeyAlgorithm, string(algorithm))
			secret := r.waitGood(t, ns, "web", "web-tls").secret
			dir := writeFiles(t, secret, formats.KeystoreFile, formats.TruststoreFile)
			file, roots := filepath.Join(dir, formats.KeystoreFile), filepath.Join(dir, formats.TruststoreFile)
			assert.Regexp(t, `(?m)^1, .*PrivateKeyEntry`, output(t, "keytool", "-list", "-keystore", file, "-storepass", "s3cret!"), "programs.yaml names the alias")
			assert.Contains(t, output(t, "keytool", "-list", "-keystore", roots, "-storepass", "s3cret!"), "trustedCertEntry")
			info := output(t, "openssl", "pkcs12", "-info", "-noenc", "-in", file, "-passin", "pass:s3cret!")
			assert.Contains(t, info, "PBES2, PBKDF2, AES-256-CBC")
			assert.Contains(t, info, "BEGIN PRIVATE KEY")
			info = output(t, "openssl", "pkcs12", "-info", "-nokeys", "-in", roots, "-passin", "pass:s3cret!")
			assert.Equal(t, 1, strings.Count(info, "BEGIN CERTIFICATE"))

			cmd := exec.CommandContext(t.Context(), "java", "testdata/Server.java")
			cmd.Env = append(os.Environ(), "SERVER_SSL_KEYSTORE=file:"+file, "SERVER_SSL_KEYSTOREPASSWORD=s3cret!", "SERVER_SSL_KEYSTORETYPE=PKCS12",
				"SERVER_SSL_TRUSTSTORE=file:"+roots, "SERVER_SSL_TRUSTSTOREPASSWORD=s3cret!", "SERVER_SSL_TRUSTSTORETYPE=PKCS12", "SERVER_SSL_CLIENTAUTH=need")
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			var port int
			_, err = fmt.Fscan(stdout, &port)
			require.NoError(t, err)
			name := "web." + ns + ".svc"
			answer, err := answers(secret, port, name, clientPair(t))
			require.NoError(t, err)
			assert.Equal(t, "ok", answer)
			_, err = answers(secret, port, name)
			require.Error(t, err, "without a certificate")
			strange, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
			require.NoError(t, err)
			_, err = answers(secret, port, name, strange)
			require.Error(t, err, "with one for servers")
		})
	}
}
