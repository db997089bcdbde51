package cfsslserver

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Kind is one of cfssl's servers: how its command begins.
type Kind string

// The kinds.
const (
	Serve       Kind = "cfssl serve"
	Multirootca Kind = "multirootca"
)

// Site is what servers have in common: binaries, TLS and the key of the HMAC.
type Site struct {
	ServerCAFile string // --cfssl-ca: signed the servers' TLS certificate
	AuthKeyFile  string // --cfssl-auth-key-file

	dir        string
	documented documented
}

// NewSite builds the servers and prepares dir, which must exist, for them.
func NewSite(dir string) (*Site, error) {
	documented, err := readDocumented()
	if err != nil {
		return nil, err
	}
	if err := Build(dir); err != nil {
		return nil, err
	}
	s := &Site{
		ServerCAFile: filepath.Join(dir, "tls-ca.pem"),
		AuthKeyFile:  filepath.Join(dir, "auth.key"),
		dir:          dir,
		documented:   documented,
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // does not fail
	if err := os.WriteFile(s.AuthKeyFile, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		return nil, err
	}
	return s, s.writeTLS()
}

// writeTLS makes the certificate that all servers show, and the CA that a client
// knows it by.
func (s *Site) writeTLS() error {
	ca, err := newCA("TLS CA of the servers", nil, func(*x509.Certificate) {})
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.ServerCAFile, pki.EncodeCertificates(ca.Certificate), 0o600); err != nil {
		return err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	leaf, err := ca.sign(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public())
	if err != nil {
		return err
	}
	return writePair(filepath.Join(s.dir, "tls.pem"), filepath.Join(s.dir, "tls-key.pem"), leaf, key)
}

// Flags returns the flags with which cmd/signer asks the servers in turn.
func (s *Site) Flags(servers ...*Server) []string {
	flags := []string{"--cfssl-ca=" + s.ServerCAFile, "--cfssl-auth-key-file=" + s.AuthKeyFile}
	for _, server := range servers {
		flags = append(flags, "--cfssl-url="+server.URL)
	}
	return flags
}

// portAttempts is how often a server is started on another port: a port is free
// when it is chosen, but another process may be quicker.
const portAttempts = 4

// Start runs a server that signs with ca, and returns when it answers. Several may be started
// at the same time.
func (s *Site) Start(kind Kind, ca *CA) (*Server, error) {
	dir, err := os.MkdirTemp(s.dir, "server-")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"tls.pem", "tls-key.pem", "auth.key"} {
		if err := os.Symlink(filepath.Join(s.dir, name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	server := &Server{kind: kind, site: s, dir: dir}
	for range portAttempts {
		port, err := process.FreePort("127.0.0.1")
		if err != nil {
			return nil, err
		}
		server.port = fmt.Sprint(port)
		server.URL = "https://127.0.0.1:" + server.port
		if err = server.Use(ca); err == nil {
			return server, nil
		}
	}
	return nil, err
}
