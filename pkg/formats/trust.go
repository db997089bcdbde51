package formats

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Files with the roots that a client trusts, and keys of Secrets and ConfigMaps. They are a contract.
const (
	// CAFile has the roots of the CA bundle in PEM.
	CAFile = "ca.crt"
	// TruststoreFile has the roots of CAFile in PKCS #12.
	TruststoreFile = "truststore.p12"
	// PublicBundleFile has the public roots that the operator configured, and those of CAFile,
	// in PEM: for variables that replace what a program trusts.
	PublicBundleFile = "ca-with-public.crt"
	// PublicTruststoreFile has the roots of PublicBundleFile in PKCS #12.
	PublicTruststoreFile = "truststore-with-public.p12"
)

// CA is the CA bundle as a file of the Secret, for programs that read all three files from one
// Secret. A volume always has it.
var CA = Format{
	Name:      "bundle",
	Word:      CAFile,
	Files:     []string{CAFile},
	MakeRoots: func(roots pki.Bundle, _ string) ([]byte, error) { return roots.PEM(), nil },
}

// Truststore is the CA bundle in PKCS #12, with the attribute that marks a certificate as trusted
// for Java.
var Truststore = Format{
	Name:      "truststore",
	Word:      TruststoreFile,
	Variable:  "TLS_TRUSTSTORE_FILE",
	Files:     []string{TruststoreFile},
	Password:  true,
	MakeRoots: MakeTruststore,
}

// MakeTruststore returns the roots in PKCS #12, encrypted like a [Keystore] with the password, empty
// for [DefaultPassword]. The salts are derived from the roots and the password, so that equal inputs
// give equal bytes, and a file can be checked by comparing it. Nothing in it is secret.
func MakeTruststore(roots pki.Bundle, password string) ([]byte, error) {
	file, err := NewRoots(roots).Truststore(password)
	return file.Content, err
}

// Roots is a bundle with its digest, for callers that repeatedly make files of the same bundle.
type Roots struct {
	pki.Bundle
	sum [sha256.Size]byte // of the PEM
	// usual is the truststore with DefaultPassword, which is made once, and kept however many others
	// are made meanwhile.
	usual func() (File, error)
}

// NewRoots returns the roots of the bundle.
func NewRoots(b pki.Bundle) Roots {
	r := Roots{Bundle: b, sum: sha256.Sum256(b.PEM())}
	r.usual = sync.OnceValues(func() (File, error) { return r.truststore(DefaultPassword) })
	return r
}

// File is the content of a file and its SHA-256.
type File struct {
	Content []byte
	Sum     [sha256.Size]byte
}

// NewFile returns the file with the content.
func NewFile(content []byte) File { return File{content, sha256.Sum256(content)} }

// Truststore is [MakeTruststore] with a cache of the most recent files.
func (r Roots) Truststore(password string) (File, error) {
	if password = (Pair{Password: password}).password(); password == DefaultPassword {
		return r.usual()
	}
	return r.truststore(password)
}

func (r Roots) truststore(password string) (File, error) {
	key := truststoreKey{roots: r.sum, password: password}
	return truststores.of(key, func() (File, error) {
		certs := r.Certificates()
		entries := make([]pkcs12.TrustStoreEntry, len(certs))
		for i, c := range certs {
			entries[i] = pkcs12.TrustStoreEntry{Cert: c, FriendlyName: alias(c)}
		}
		var content []byte
		var err error
		notInStrictFIPS(func() {
			content, err = pkcs12.Modern2023.WithRand(key.salts()).EncodeTrustStoreEntries(entries, key.password)
		})
		if err != nil {
			return File{}, fmt.Errorf("encode %d roots: %w", len(certs), err)
		}
		return NewFile(content), nil
	})
}

// alias returns the name of a root for programs. Java merges entries with the same alias, ignoring
// case, so the alias contains the beginning of the certificate's digest.
func alias(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, c.Subject.String())
	return name[:min(len(name), maxAlias)] + " " + hex.EncodeToString(sum[:8])
}

// maxAlias bounds the subject in an alias, in characters.
const maxAlias = 128

// truststoreKey is the input of a truststore.
type truststoreKey struct {
	roots    [sha256.Size]byte
	password string
}

// salts returns the bytes that replace the random ones of a keystore.
func (k truststoreKey) salts() io.Reader {
	var salts bytes.Buffer
	for i := range byte(8) { // two salts and a vector of 16 bytes each are read
		sum := sha256.Sum256(append(append(k.roots[:], i), k.password...))
		salts.Write(sum[:])
	}
	return &salts
}

// truststores caches truststores. All Secrets and ConfigMaps have the same one, except those with
// their own password.
var truststores = recent{most: 16}

// recent caches the files that were made last. It is safe for concurrent use, and makes several
// files at a time, each once.
type recent struct {
	most int

	mu    sync.Mutex
	keys  []truststoreKey
	files []func() (File, error)
}

// of returns the file of the key, from create if it is not cached.
func (r *recent) of(key truststoreKey, create func() (File, error)) (File, error) {
	return r.once(key, create)()
}

// once returns what makes the file of the key when it is first called: not here, where the lock would
// have those wait that need another file.
func (r *recent) once(key truststoreKey, create func() (File, error)) func() (File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.keys, key); i >= 0 {
		return r.files[i]
	}
	file := sync.OnceValues(create)
	if len(r.keys) == r.most {
		r.keys, r.files = r.keys[1:], r.files[1:]
	}
	r.keys, r.files = append(r.keys, key), append(r.files, file)
	return file
}
