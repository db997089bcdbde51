// Package hosttest makes certificates as tests of hostsync need them.
package hosttest

import (
	"crypto"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// InMemory has t.TempDir make directories in memory, if the machine has some for files and $TMPDIR is
// not set: a store syncs after each step, which takes a busy disk as much as a second.
func InMemory() {
	const shm = "/dev/shm"
	if _, set := os.LookupEnv("TMPDIR"); set {
		return
	}
	if dir, err := os.MkdirTemp(shm, ""); err == nil {
		_ = os.Remove(dir)
		_ = os.Setenv("TMPDIR", shm)
	}
}

// Files are those of a pair, and of the bundle of the CA that signed it.
func Files(tb testing.TB, ca rotatortest.CA, pair tls.Certificate) hostfiles.Files {
	tb.Helper()
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	if err != nil {
		tb.Fatal(err)
	}
	return hostfiles.Files{Cert: pki.EncodeCertificates(pair.Leaf), Key: key, Bundle: pki.EncodeCertificates(ca.Root)}
}

// Content is what a store holds after it was given a new pair of the CA.
func Content(tb testing.TB, s *hostfiles.Store, ca rotatortest.CA, issued time.Time, names ...string) *hostfiles.Content {
	tb.Helper()
	c, err := hostfiles.Read(s, Files(tb, ca, ca.Issue(tb, issued, names...)), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Write puts files into a directory, as a kubelet does: by one rename of a link.
func Write(tb testing.TB, dir string, f hostfiles.Files) {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	must(os.MkdirAll(dir, 0o755))
	version, err := os.MkdirTemp(dir, "..version-")
	must(err)
	for name, data := range map[string][]byte{"tls.crt": f.Cert, "tls.key": f.Key, "ca.crt": f.Bundle} {
		if data != nil {
			must(os.WriteFile(filepath.Join(version, name), data, 0o600))
		}
		link := filepath.Join(dir, name)
		if _, err := os.Lstat(link); err != nil {
			must(os.Symlink(filepath.Join("..data", name), link))
		}
	}
	must(os.RemoveAll(filepath.Join(dir, "..new")))
	must(os.Symlink(filepath.Base(version), filepath.Join(dir, "..new")))
	must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
}
