package app

import (
	"crypto/x509"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// files writes the files for flags to a directory, and returns its path.
func files(t *testing.T) string {
	dir := t.TempDir()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	for name, content := range map[string]string{
		"auth.key":  strings.Repeat("0f", 32) + "\n",
		"short.key": strings.Repeat("0f", 31) + "\n",
		"raw.key":   strings.Repeat("raw ", 20),
		"empty":     "",
		"ca.crt":    string(pki.EncodeCertificates(root)),
		"ca.key":    string(keyPEM),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// remoteFlagsOf parses a command line in which $D is dir.
func remoteFlagsOf(t *testing.T, dir, line string) (*remoteFlags, error) {
	f, fs := &remoteFlags{}, pflag.NewFlagSet("signer", pflag.ContinueOnError)
	f.register(fs)
	root, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	f.systemRoots = func() (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(root)
		return pool, nil
	}
	fs.Bool("other", false, "another flag")
	require.NoError(t, fs.Parse(strings.Fields(strings.ReplaceAll(line, "$D", dir))))
	return f, f.validate(time.Now)
}

func TestRemoteFlags(t *testing.T) {
	dir := files(t)
	f, err := remoteFlagsOf(t, dir, "--other")
	require.NoError(t, err)
	assert.False(t, f.enabled(), "the CA is local")

	f, err = remoteFlagsOf(t, dir, "--cfssl-url=https://a,https://b:8888 --cfssl-url https://c --cfssl-auth-key-file $D/auth.key")
	require.NoError(t, err)
	assert.True(t, f.enabled())
	assert.Equal(t, []string{"https://a", "https://b:8888", "https://c"}, f.config.URLs)
	assert.Equal(t, strings.Repeat("0f", 32), hex.EncodeToString(f.config.AuthKey))
	assert.Equal(t, []string{"serving", "serving-rsa"}, []string{f.config.Profile, f.config.ProfileRSA})
	assert.Equal(t, 10*time.Second, f.config.Timeout)
	assert.Nil(t, f.config.ServerCAs, "the system's CAs")
	assert.Nil(t, f.config.ClientCertificate)
	_, err = cfssl.NewRemote(f.config)
	require.NoError(t, err)

	f, err = remoteFlagsOf(t, dir, "--cfssl-url=https://a --cfssl-auth-key-file $D/auth.key --cfssl-ca $D/ca.crt --cfssl-bundle $D/ca.crt --cfssl-profile web --cfssl-label one --cfssl-timeout 1s --cfssl-client-cert $D/ca.crt --cfssl-client-key $D/ca.key")
	require.NoError(t, err)
	assert.Equal(t, []string{"web", "web-rsa", "one"}, []string{f.config.Profile, f.config.ProfileRSA, f.config.Label})
	assert.Len(t, f.config.Bundle, 1)
	assert.False(t, f.config.ServerCAs.Equal(x509.NewCertPool()))
	pair, err := f.config.ClientCertificate()
	require.NoError(t, err)
	assert.Equal(t, f.config.Bundle[0].Raw, pair.Certificate[0])
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.key")))
	_, err = f.config.ClientCertificate()
	assert.ErrorContains(t, err, "--cfssl-client-key", "the files are read for each connection")

	f, err = remoteFlagsOf(t, dir, "--cfssl-url=https://a --cfssl-auth-key-file $D/auth.key --cfssl-profile-rsa enciphers")
	require.NoError(t, err)
	assert.Equal(t, "enciphers", f.config.ProfileRSA)
}

// programs are the programs that this executable can run as.
var programs = harness.Programs{"signer": Main}

func TestMain(m *testing.M) { programs.Main(m) }

// The program as it runs in its image: without roots, and without --cfssl-ca.
func TestNoSystemRoots(t *testing.T) {
	dir := files(t)
	binary := programs.Path(t, "signer")
	run := func(flags ...string) (string, int) {
		cmd := exec.Command(binary, append([]string{
			"--cfssl-url=https://ca.example", "--cfssl-auth-key-file=" + filepath.Join(dir, "auth.key"), "--kubeconfig=" + filepath.Join(dir, "none"), "--metrics-addr=0",
		}, flags...)...)
		cmd.Env = []string{"SSL_CERT_FILE=" + filepath.Join(dir, "none"), "SSL_CERT_DIR=" + filepath.Join(dir, "none")}
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		return string(out), cmd.ProcessState.ExitCode()
	}
	said, code := run()
	assert.Equal(t, process.ExitUsage, code)
	assert.Contains(t, said, "signer: --cfssl-ca: required: ")
	assert.Contains(t, said, "the system has no root certificates (the signer's image has none): mount a file with the CA that signed them")
	said, code = run("--cfssl-ca=" + filepath.Join(dir, "ca.crt"))
	assert.Equal(t, process.ExitError, code)
	assert.Contains(t, said, "cannot connect to an API server", "the flags are valid")
}

func TestWrongRemoteFlags(t *testing.T) {
	dir := files(t)
	const complete = "--cfssl-url https://a --cfssl-auth-key-file $D/auth.key "
	for line, want := range map[string]string{
		"--cfssl-timeout=10s":               "--cfssl-timeout: requires --cfssl-url",
		"--cfssl-auth-key-file=$D/auth.key": "--cfssl-auth-key-file: requires --cfssl-url",
		"--cfssl-url=":                      "--cfssl-url: must name at least one server",
		"--cfssl-url=https://a":             "--cfssl-auth-key-file: required with --cfssl-url",
		"--cfssl-url=http://a --cfssl-auth-key-file=$D/auth.key":                  `--cfssl-url: "http://a": must be https://`,
		"--cfssl-url=https://a, --cfssl-auth-key-file=$D/auth.key":                `--cfssl-url: "": must be https://`,
		"--cfssl-url=https://a --cfssl-auth-key-file=$D/none":                     "--cfssl-auth-key-file: open ",
		"--cfssl-url=https://a --cfssl-auth-key-file=$D/empty":                    "/empty: must be the key in hex",
		"--cfssl-url=https://a --cfssl-auth-key-file=$D/short.key":                "/short.key: must be the key in hex, as in auth_keys of the servers' configuration: at least 64 digits",
		"--cfssl-url=https://a --cfssl-auth-key-file=$D/raw.key":                  "/raw.key: must be the key in hex",
		complete + "--cfssl-ca=$D/none":                                           "--cfssl-ca: open ",
		complete + "--cfssl-ca=$D/empty":                                          "/empty: no certificate",
		complete + "--cfssl-ca=$D/ca.key":                                         `/ca.key: certificate 1: PEM block is a "PRIVATE KEY"`,
		complete + "--cfssl-bundle=$D/none":                                       "--cfssl-bundle: open ",
		complete + "--cfssl-bundle=$D/auth.key":                                   "--cfssl-bundle: ",
		complete + "--cfssl-timeout=-1s":                                          `--cfssl-timeout: "-1s": must be positive`,
		complete + "--cfssl-profile=":                                             "--cfssl-profile: must not be empty",
		complete + "--cfssl-client-cert=$D/ca.crt":                                "--cfssl-client-key: requires --cfssl-client-cert",
		complete + "--cfssl-client-key=$D/ca.key":                                 "--cfssl-client-cert: requires --cfssl-client-key",
		complete + "--cfssl-client-cert=$D/ca.crt --cfssl-client-key=$D/auth.key": "--cfssl-client-cert, --cfssl-client-key: ",
	} {
		t.Run(line, func(t *testing.T) {
			_, err := remoteFlagsOf(t, dir, line)
			require.ErrorContains(t, err, want)
			assert.NotContains(t, err.Error(), "0f0f")
			assert.NotContains(t, err.Error(), "raw raw")
		})
	}
}
