package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// roots has the roots that verify servers, and reloads them.
type roots struct {
	watched
	file    string
	current atomic.Pointer[trusted]
	pem     []byte // of current; used only by the goroutine that calls look
}

func newRoots(file string, log *limitedLog) *roots {
	r := &roots{file: file}
	r.watched = watched{
		load:    r.load,
		loaded:  func() { log.info("CA bundle loaded", "certificates", r.current.Load().size) },
		waiting: func(err error) { log.info("waiting for the CA bundle", "error", err) },
		failed: func(err error) {
			log.error("cannot load the CA bundle, servers are verified with the previous one", "error", err)
		},
	}
	return r
}

func (r *roots) load() (changed bool, err error) {
	pem, err := readFile(r.file)
	if err != nil || bytes.Equal(pem, r.pem) {
		return false, err
	}
	bundle, err := pki.ParseRoots(pem, largestFile)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.file, err)
	}
	t := &trusted{pool: x509.NewCertPool(), configs: map[server]*tls.Config{}}
	for _, root := range bundle.Certificates() {
		t.pool.AddCert(root)
		t.size++
	}
	r.current.Store(t)
	r.pem = pem
	return true, nil
}

// trusted is one set of roots, with a configuration for each server. Sets do not share sessions: a resumed session
// would not be verified with the new roots.
type trusted struct {
	pool *x509.CertPool
	size int

	mu      sync.Mutex
	configs map[server]*tls.Config
}

// server is a server as a client of TLS sees it. Sessions are resumed only with the identity which they were begun with.
type server struct {
	host string
	h2   bool
	as   pki.SPIFFEID
}

func (t *trusted) config(s server) *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	config := t.configs[s]
	if config == nil {
		config = &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    t.pool,
			ServerName: s.host,
			// One session for each configuration, which is always of one server.
			ClientSessionCache:          tls.NewLRUClientSessionCache(1),
			DynamicRecordSizingDisabled: true, // as for clients: see configure
		}
		if s.h2 {
			config.NextProtos = []string{proxy.ProtocolH2}
		}
		t.configs[s] = config
	}
	return config
}
