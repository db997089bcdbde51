package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// largestFile is the maximum size of a file, in bytes.
const largestFile = 1 << 20

// certs has the certificate in a directory, and reloads it.
type certs struct {
	watched
	dir string
	log *limitedLog

	current atomic.Pointer[loaded]

	// Used only by the goroutine that calls look:
	certPEM, keyPEM []byte // the last files that were loaded
}

// loaded is one certificate with the configurations that serve it. The configurations do not share
// session ticket keys with those before, because a resumed session would keep the old certificate.
type loaded struct {
	leaf      string // fingerprint
	notAfter  time.Time
	http1, h2 *tls.Config
	pair      tls.Certificate

	mu            sync.Mutex
	roots         *proxy.ClientRoots // of guardedConfig
	guardedConfig map[variant]*tls.Config
}

func newCerts(dir string, log *limitedLog) *certs {
	c := &certs{dir: dir, log: log}
	c.watched = watched{
		load: c.load,
		loaded: func() {
			log.info("certificate loaded", "leaf", c.current.Load().leaf, "notAfter", c.current.Load().notAfter)
		},
		waiting: func(err error) { log.info("waiting for the certificate", "error", err) },
		failed: func(err error) {
			log.error("cannot load the certificate files, serving the previous certificate", "error", err)
		},
	}
	return c
}

func (c *certs) config(h2 bool) *tls.Config {
	if h2 {
		return c.current.Load().h2
	}
	return c.current.Load().http1
}

func (c *certs) load() (changed bool, err error) {
	dir := c.dir
	// The kubelet replaces the link ..data: its target has both files of one version.
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
		return false, nil // already served: the files were invalid for a while
	}
	c.certPEM, c.keyPEM = certPEM, keyPEM
	c.current.Store(&loaded{
		leaf: pki.Fingerprint(pair.Leaf), notAfter: pair.Leaf.NotAfter, http1: configure(baseConfig(pair), false), h2: configure(baseConfig(pair), true), pair: pair,
	})
	return true, nil
}

// readFile reads a file of at most largestFile bytes.
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
