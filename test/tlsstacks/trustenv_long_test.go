//go:build long

package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/skip"
)

// The names that clients use: of a Service, and of a server with a certificate of a public CA.
const (
	clusterName = "web.shop.svc"
	publicName  = "www.example.org"
)

// program is a client whose trusted roots are only configured by its environment.
type program struct {
	name  string
	needs string
	// command connects to the host, at the port of 127.0.0.1.
	command func(host string, port string) []string
	// verified is part of its output if it accepts the certificate.
	verified string
	// ownRoots: it has built-in public roots, to which the variable adds.
	ownRoots bool
}

const pythonProgram = `import socket, ssl, sys
with ssl.create_default_context().wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[2]))), server_hostname=sys.argv[1]):
    print("verified")`

const nodeProgram = `const [host, port] = process.argv.slice(1);
const s = require("tls").connect({host: "127.0.0.1", port: Number(port), servername: host}, () => { console.log("verified"); s.end(); });
s.on("error", (e) => console.log(e.code));`

// environmentProgram is a variable with HOST PORT that makes the test binary a client.
const environmentProgram = "SERVINGCERT_TEST_CLIENT"

var environmentClients = []program{
	{name: "curl", needs: "curl", verified: "served", command: func(host, port string) []string {
		return []string{"curl", "-sS", "--resolve", host + ":" + port + ":127.0.0.1", "https://" + host + ":" + port}
	}},
	{name: "git", needs: "git", verified: "not found", command: func(host, port string) []string {
		return []string{"git", "-c", "http.curloptResolve=" + host + ":" + port + ":127.0.0.1", "ls-remote", "https://" + host + ":" + port + "/none"}
	}},
	{name: "Python", needs: "python3", verified: "verified", command: func(host, port string) []string {
		return []string{"python3", "-c", pythonProgram, host, port}
	}},
	{name: "Node", needs: "node", verified: "verified", ownRoots: true, command: func(host, port string) []string {
		return []string{"node", "-e", nodeProgram, host, port}
	}},
	{name: "Node with OpenSSL's roots", needs: "node", verified: "verified", command: func(host, port string) []string {
		return []string{"node", "--use-openssl-ca", "-e", nodeProgram, host, port}
	}},
	{name: "Java", needs: "java", verified: "verified", command: func(host, port string) []string {
		return []string{"java", "testdata/Environment.java", host, port}
	}},
	{name: "Go", needs: "env", verified: "verified", command: func(host, port string) []string {
		return []string{"env", environmentProgram + "=" + host + " " + port, os.Args[0], "-test.run=TestMain"}
	}},
}

// TestMain runs a client with the system's roots if environmentProgram is set.
func TestMain(m *testing.M) {
	host, port, isSet := strings.Cut(os.Getenv(environmentProgram), " ")
	if !isSet {
		os.Exit(m.Run())
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}}).DialContext(context.Background(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = conn.Close()
	fmt.Println("verified")
}

// injected returns the variables that the webhook injects, with the files in dir.
func injected(t *testing.T, dir string) []corev1.EnvVar {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "client", Annotations: map[string]string{api.AnnotationMountPath: dir}}}
	pod.Spec.Containers = []corev1.Container{{Name: "client", Image: "client"}}
	patch, _, err := mutate.Mutate(pod, choose.Known{
		Namespace: map[string]string{api.AnnotationTrust: string(api.TrustEnv)}, Config: choose.Config{PublicRoots: true},
	})
	require.NoError(t, err)
	for _, o := range patch {
		if env, ok := o.Value.([]corev1.EnvVar); ok {
			return env
		}
	}
	require.Fail(t, "the pod gets no variables")
	return nil
}

// publish writes the files of ConfigMap api.BundleName with these roots into dir.
func publish(t *testing.T, dir string, public *x509.Certificate, roots ...*x509.Certificate) {
	all := pki.NewBundle(append([]*x509.Certificate{public}, roots...)...)
	truststore, err := formats.MakeTruststore(all, "")
	require.NoError(t, err)
	for name, content := range map[string][]byte{
		api.BundleKey: pki.NewBundle(roots...).PEM(), formats.PublicBundleFile: all.PEM(), formats.PublicTruststoreFile: truststore,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

// signed returns a certificate for a new key; a root signs itself.
func signed(t *testing.T, template, parent *x509.Certificate, parentKey crypto.Signer) (*x509.Certificate, crypto.Signer) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	if parentKey == nil {
		parent, parentKey = template, key
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, key
}

// serveAs serves a leaf for the name with its chain, and returns the port.
func serveAs(t *testing.T, name string, issuer *x509.Certificate, key crypto.Signer, chain ...*x509.Certificate) string {
	leaf, leafKey := signed(t, &x509.Certificate{DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, issuer, key)
	cert := tls.Certificate{PrivateKey: leafKey, Certificate: [][]byte{leaf.Raw}}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, answer)
		})}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}

// connects runs the program with only the variables, and returns whether it accepted the certificate,
// and its output.
func (p program) connects(t *testing.T, env []corev1.EnvVar, host, port string) (bool, string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := p.command(host, port)
	cmd := command(ctx, args[0], args[1:]...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(injected(t, "/x"), func(e corev1.EnvVar) bool { return e.Name == name }) || strings.HasPrefix(strings.ToLower(name), "http") || name == "SSL_CERT_DIR"
	})
	for _, e := range env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	out, _ := cmd.CombinedOutput()
	return strings.Contains(string(out), p.verified), string(out)
}

// With the variables that the webhook injects, each program accepts certificates for a cluster name and
// a public name before, during and after a succession. Without them, it rejects that for the cluster name.
func TestTrustByEnvironment(t *testing.T) {
	public, publicKey := signed(t, &x509.Certificate{Subject: pkix.Name{CommonName: "Made-up Public Root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	s, err := newSuccession("", time.Now(), 24*time.Hour, 48*time.Hour)
	require.NoError(t, err)
	first, second := s.authority(1, time.Now()), s.authority(2, time.Now())
	outside := serveAs(t, publicName, public, publicKey)
	for _, p := range environmentClients {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			skip.WithoutPrograms(t, p.needs)
			dir := t.TempDir()
			env := injected(t, dir)
			for _, moment := range []struct {
				what    string
				bundle  []*x509.Certificate
				serving *pki.Authority
			}{
				{"before", []*x509.Certificate{s.of(1).root}, first},
				{"the second root is published", []*x509.Certificate{s.of(1).root, s.of(2).root}, first},
				{"the second generation signs", []*x509.Certificate{s.of(1).root, s.of(2).root}, second},
				{"a client has the previous bundle", []*x509.Certificate{s.of(1).root}, second},
				{"the first root is retired", []*x509.Certificate{s.of(2).root}, second},
			} {
				publish(t, dir, public, moment.bundle...)
				port := serveAs(t, clusterName, moment.serving.Certificate, moment.serving.Key, moment.serving.Chain...)
				verified, said := p.connects(t, env, clusterName, port)
				assert.True(t, verified, "%s: %s: %s", moment.what, clusterName, said)
				if !p.ownRoots {
					verified, said = p.connects(t, env, publicName, outside)
					assert.True(t, verified, "%s: %s: %s", moment.what, publicName, said)
				}
			}
			port := serveAs(t, clusterName, second.Certificate, second.Key, second.Chain...)
			verified, said := p.connects(t, nil, clusterName, port)
			assert.False(t, verified, "without the variables: %s", said)
		})
	}
}
