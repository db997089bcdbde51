// Package certfiles serves the certificate in two files, and reloads it when they change.
package certfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/servingcert/servingcert/pkg/pki"
)

// PollInterval is how often the files are read. They are small, and polling notices what file system
// events miss: a directory that is created later, or a symbolic link replaced further up the path.
const PollInterval = time.Second

// ErrNoCertificate is what GetCertificate returns until the files exist.
var ErrNoCertificate = errors.New("no certificate yet")

// Files serves the certificate in a directory's tls.crt and tls.key. It compares the bytes of the
// files, so it notices a chain that changes under the same leaf. A manager runs it on every replica.
type Files struct {
	certFile, keyFile string
	log               logr.Logger

	mu       sync.RWMutex
	cert     *tls.Certificate // nil until one was loaded
	certPEM  []byte
	keyPEM   []byte
	lastFail string
}

// New returns the Files of a directory, which need not exist yet. Nothing is read before Load or Start.
func New(dir string, log logr.Logger) *Files {
	return &Files{
		certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key"), log: log,
	}
}

// CheckDir returns an error that quotes dir if it is not a directory. A directory may be created later.
func CheckDir(dir string) error {
	if dir == "" {
		return errors.New(`"": must be a directory`)
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%q: is a file: must be the directory that contains tls.crt and tls.key", filepath.Clean(dir))
	}
	return nil
}

// GetCertificate returns the certificate that was loaded last, or ErrNoCertificate. It is for
// tls.Config.GetCertificate.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.cert == nil {
		return nil, ErrNoCertificate
	}
	return f.cert, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Files) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it loads the files now and whenever they change, until ctx ends.
func (f *Files) Start(ctx context.Context) error {
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	for {
		f.Load()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Load loads the files if they have changed and match. If they do not match, for example while a pair
// is being replaced, the previous certificate stays.
func (f *Files) Load() {
	changed, err := f.tryLoad()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && err.Error() != f.lastFail && f.cert == nil:
		f.lastFail = err.Error()
		f.log.Info("waiting for the certificate", "reason", err.Error())
	case err != nil && err.Error() != f.lastFail:
		f.lastFail = err.Error()
		f.log.Error(err, "cannot load the certificate files, serving the previous certificate")
	case err == nil:
		f.lastFail = ""
		if changed {
			f.log.Info("certificate loaded", "leaf", pki.Fingerprint(f.cert.Leaf), "notAfter", f.cert.Leaf.NotAfter, "chain", len(f.cert.Certificate))
		}
	}
}

func (f *Files) tryLoad() (changed bool, err error) {
	certPEM, err := os.ReadFile(f.certFile)
	if err != nil {
		return false, err
	}
	keyPEM, err := os.ReadFile(f.keyFile)
	if err != nil {
		return false, err
	}
	f.mu.RLock()
	same := bytes.Equal(certPEM, f.certPEM) && bytes.Equal(keyPEM, f.keyPEM)
	f.mu.RUnlock()
	if same {
		return false, nil
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", f.certFile, f.keyFile, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cert, f.certPEM, f.keyPEM = &cert, certPEM, keyPEM
	return true, nil
}
