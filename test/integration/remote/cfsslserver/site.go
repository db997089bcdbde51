package cfsslserver

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/hack/process"
)

// Kind is one of cfssl's servers: how its command begins.
type Kind string

// The kinds.
const (
	Serve       Kind = "cfssl serve"
	Multirootca Kind = "multirootca"
)

// Site is what servers have in common: programs, TLS and the key of the HMAC.
type Site struct {
	ServerCAFile string // --cfssl-ca: signed the servers' TLS certificate
	AuthKeyFile  string // --cfssl-auth-key-file

	dir        string
	tls        certs.KeyPair
	client     *http.Client // trusts the servers
	programs   map[string]string
	documented documented
}

// NewSite builds the servers and prepares dir, which must exist, for them.
func NewSite(ctx context.Context, dir string) (*Site, error) {
	documented, err := readDocumented()
	if err != nil {
		return nil, err
	}
	programs, err := controlplane.Tools(ctx, "hack/cfssl")
	if err != nil {
		return nil, err
	}
	ca, err := certs.New(dir, "tls-ca", "TLS CA of the servers")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Issue("tls", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca.CAPEM)
	key := make([]byte, 32)
	_, _ = rand.Read(key) // does not fail
	s := &Site{
		ServerCAFile: ca.CAFile, AuthKeyFile: filepath.Join(dir, "auth.key"),
		dir: dir, tls: pair, programs: programs, documented: documented,
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}},
	}
	return s, os.WriteFile(s.AuthKeyFile, []byte(hex.EncodeToString(key)+"\n"), 0o600)
}

// Flags returns the flags with which cmd/signer asks the servers in turn.
func (s *Site) Flags(servers ...*Server) []string {
	flags := []string{"--cfssl-ca=" + s.ServerCAFile, "--cfssl-auth-key-file=" + s.AuthKeyFile}
	for _, server := range servers {
		flags = append(flags, "--cfssl-url="+server.URL)
	}
	return flags
}

// Start runs a server that signs with ca until the test ends, and returns when it answers. Several may be
// started at the same time.
func (s *Site) Start(t testing.TB, kind Kind, ca *CA) *Server {
	t.Helper()
	dir, err := os.MkdirTemp(s.dir, "server-")
	require.NoError(t, err)
	for name, file := range map[string]string{"tls.pem": s.tls.CertFile, "tls-key.pem": s.tls.KeyFile, "auth.key": s.AuthKeyFile} {
		require.NoError(t, os.Symlink(file, filepath.Join(dir, name)))
	}
	port := fmt.Sprint(process.PortFor(t, "127.0.0.1"))
	binary, _, _ := strings.Cut(string(kind), " ")
	server := &Server{URL: "https://127.0.0.1:" + port, site: s, dir: dir}
	server.program.Label, server.program.Path, server.program.Args = string(kind), s.programs[binary], s.documented.commandLine(kind, dir, port)
	server.program.NoHealth, server.program.Once, server.program.Log.File = true, true, filepath.Join(dir, "log")
	server.write(t, "serving.json", inDir(s.documented.profiles, dir))
	server.write(t, "roots.conf", inDir(s.documented.roots, dir))
	server.Use(t, ca)
	return server
}
