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

// errNoClientCA is what clients and the readiness check get until the file exists.
var errNoClientCA = errors.New("no client CA yet")

// clientCA demands a certificate of each client: one for client authentication that leads
// to a CA in a file, and, if there are names, that has one of them.
type clientCA struct {
	file  string
	names []string // of which one is the common name or a DNS name; empty: any
	log   logr.Logger

	mu       sync.RWMutex
	pool     *x509.CertPool // nil until one could be loaded
	content  []byte
	lastFail string
}

func newClientCA(file string, names []string, log logr.Logger) *clientCA {
	return &clientCA{file: file, names: names, log: log}
}

// demand changes the configuration of a server so that a handshake fails for whoever has
// no such certificate, and for all until the file could be loaded.
func (c *clientCA) demand(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.VerifyConnection = c.checkName
	// A resumed session would outlive the CA that it was begun with.
	config.SessionTicketsDisabled = true
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.mu.RLock()
		defer c.mu.RUnlock()
		if c.pool == nil { // which would stand for the CAs of the system
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
	client := state.PeerCertificates[0] // there is one: it was verified
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

// load loads the file if it has changed. If it has no certificate, such as while it is
// being written, those that were loaded last stay.
func (c *clientCA) load() {
	content, err := os.ReadFile(c.file)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(content) {
		err = fmt.Errorf("%s: has no certificate in PEM", c.file)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && !bytes.Equal(content, c.content):
		c.pool, c.content, c.lastFail = pool, content, ""
		c.log.Info("client CA loaded", "file", c.file)
	case err == nil:
		c.lastFail = ""
	case err.Error() == c.lastFail: // was said
	case c.pool == nil:
		c.lastFail = err.Error()
		c.log.Info("not ready: waiting for the client CA", "reason", err.Error())
	default:
		c.lastFail = err.Error()
		c.log.Error(err, "cannot load the certificates of the client CA, the previous ones are in use")
	}
}
