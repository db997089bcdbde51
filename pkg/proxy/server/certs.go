package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// lookEvery is how often the files are read: a renewal is served a second after it was mounted.
const lookEvery = 500 * time.Millisecond

// largestFile is how much is read of a file.
const largestFile = 1 << 20

// certs serves the certificate in a directory, and follows it.
type certs struct {
	dir string
	log *limitedLog

	current atomic.Pointer[loaded]
	reloads atomic.Uint64 // successful ones, after the first
	failing atomic.Bool   // what is in the files cannot be served

	// Of the goroutine that looks:
	certPEM, keyPEM []byte // what was seen last, whether it can be served or not
	lastErr         string
	doubt           bool // what was seen last is looked at once more before it is reported
}

// loaded is one certificate with the configurations that serve it. Their keys for session tickets
// are their own: a session that was resumed after a renewal would go on with the old certificate.
type loaded struct {
	leaf      string // fingerprint
	notAfter  time.Time
	http1, h2 *tls.Config
}

func newCerts(dir string, log *limitedLog) *certs { return &certs{dir: dir, log: log} }

func (c *certs) config(h2 bool) *tls.Config {
	if h2 {
		return c.current.Load().h2
	}
	return c.current.Load().http1
}

// wait returns true once there is a certificate, and false if ctx ends before.
func (c *certs) wait(ctx context.Context) bool {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for c.look(); c.current.Load() == nil; c.look() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// follow looks at the files until ctx ends.
func (c *certs) follow(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.look()
		}
	}
}

// look loads the files if they have changed. If they do not match, the certificate before stays;
// that is reported if it is so twice, as files that are replaced one after the other do not match
// for a moment.
func (c *certs) look() {
	changed, err := c.load()
	if err != nil {
		again := err.Error() == c.lastErr
		if again && c.doubt {
			c.doubt = false
			c.failing.Store(true)
			c.report(err)
		} else if !again {
			c.lastErr, c.doubt = err.Error(), true
		}
		return
	}
	c.lastErr, c.doubt = "", false
	c.failing.Store(false)
	if changed {
		c.log.info("certificate loaded", "leaf", c.current.Load().leaf, "notAfter", c.current.Load().notAfter)
	}
}

func (c *certs) report(err error) {
	if c.current.Load() == nil {
		c.log.info("waiting for the certificate", "error", err)
		return
	}
	c.log.error("cannot load the certificate files, serving the previous certificate", "error", err)
}

func (c *certs) load() (changed bool, err error) {
	dir := c.dir
	// The kubelet replaces a link to the directory of both files: they are read through one
	// version of it.
	if target, err := os.Readlink(filepath.Join(dir, "..data")); err == nil {
		dir = filepath.Join(dir, target)
	}
	certPEM, err := readFile(filepath.Join(dir, "tls.crt"))
	if err != nil {
		return false, err
	}
	keyPEM, err := readFile(filepath.Join(dir, "tls.key"))
	if err != nil {
		return false, err
	}
	if c.lastErr == "" && bytes.Equal(certPEM, c.certPEM) && bytes.Equal(keyPEM, c.keyPEM) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, fmt.Errorf("%s: tls.crt and tls.key: %w", c.dir, err)
	}
	if bytes.Equal(certPEM, c.certPEM) && bytes.Equal(keyPEM, c.keyPEM) {
		return false, nil // it is served already: what was wrong meanwhile is over
	}
	c.certPEM, c.keyPEM = certPEM, keyPEM
	if c.current.Swap(&loaded{pki.Fingerprint(pair.Leaf), pair.Leaf.NotAfter, configure(pair, false), configure(pair, true)}) != nil {
		c.reloads.Add(1)
	}
	return true, nil
}

// readFile reads a file of a size that a certificate may have.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	if err == nil && len(b) > largestFile {
		err = fmt.Errorf("%s: is larger than %d bytes", path, largestFile)
	}
	return b, err
}

// configure returns the configuration that selects protocols by proxy.ChooseProtocol.
func configure(pair tls.Certificate, h2 bool) *tls.Config {
	base := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		// A record for each write. Small first records help browsers on slow networks, and cost
		// a system call for each 1400 bytes.
		DynamicRecordSizingDisabled: true,
	}
	usual := map[string]*tls.Config{}
	for _, protocol := range []string{proxy.ProtocolH2, proxy.ProtocolHTTP1} {
		usual[protocol] = base.Clone()
		usual[protocol].NextProtos = []string{protocol}
	}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		protocol := proxy.ChooseProtocol(hello.SupportedProtos, h2)
		if protocol == "" {
			return nil, nil
		}
		if config := usual[protocol]; config != nil {
			return config, nil
		}
		config := usual[proxy.ProtocolHTTP1].Clone()
		config.NextProtos = []string{protocol}
		return config, nil
	}
	return base
}
