package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/servingcert/servingcert/cmd/internal/certfiles"
)

// errNoClientCA is returned to clients and the readiness check until the file exists.
var errNoClientCA = errors.New("no client CA yet")

// clientCA requires a certificate of each client: for client authentication, issued by a CA in a
// file, and with one of the names if there are any.
type clientCA struct {
	file  string
	names []string // accepted common names or DNS names; empty: any
	log   logr.Logger

	mu       sync.RWMutex
	pool     *x509.CertPool // nil until one was loaded
	content  []byte
	lastFail string
}

func newClientCA(file string, names []string, log logr.Logger) *clientCA {
	return &clientCA{file: file, names: names, log: log}
}

// demand makes handshakes fail for clients without such a certificate, and for all clients until
// the file was loaded.
func (c *clientCA) demand(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.VerifyConnection = c.checkName
	// A resumed session would outlive the CA that verified it.
	config.SessionTicketsDisabled = true
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.mu.RLock()
		defer c.mu.RUnlock()
		if c.pool == nil { // nil would mean the system's CAs
			return nil, errNoClientCA
		}
		demanding := base.Clone()
		demanding.ClientCAs = c.pool
		return demanding, nil
	}
}

func (c *clientCA) checkName(state tls.ConnectionState) error {
	if len(c.names) == 0 {
		return nil
	}
	client := state.PeerCertificates[0] // never empty: it was verified
	for _, name := range append([]string{client.Subject.CommonName}, client.DNSNames...) {
		if slices.Contains(c.names, name) {
			return nil
		}
	}
	return errors.New("the name in the client's certificate is not in --client-names")
}

// loaded returns nil once clients can be verified.
func (c *clientCA) loaded() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.pool == nil {
		return errNoClientCA
	}
	return nil
}

// watch loads the file now and whenever it changes, until ctx ends.
func (c *clientCA) watch(ctx context.Context) error {
	tick := time.NewTicker(certfiles.PollInterval)
	defer tick.Stop()
	for {
		c.load()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// load loads the file if it has changed. If it has no certificate, for example while it is being
// written, the previous certificates stay.
func (c *clientCA) load() {
	content, err := os.ReadFile(c.file)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(content) {
		err = fmt.Errorf("%s: contains no PEM certificate", c.file)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && !bytes.Equal(content, c.content):
		c.pool, c.content, c.lastFail = pool, content, ""
		c.log.Info("client CA loaded", "file", c.file)
	case err == nil:
		c.lastFail = ""
	case err.Error() == c.lastFail: // already logged
	case c.pool == nil:
		c.lastFail = err.Error()
		c.log.Info("not ready: waiting for the client CA", "reason", err.Error())
	default:
		c.lastFail = err.Error()
		c.log.Error(err, "cannot load the client CA, using the previous one")
	}
}
