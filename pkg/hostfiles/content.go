package hostfiles

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Files are the contents of files in a directory; nil if a file does not exist.
type Files struct{ Cert, Key, Combined, Bundle []byte }

// Content is the installed or desired content of a store: a matching pair, or a bundle.
type Content struct {
	// ID is the SHA-256 of all files, in hex.
	ID string
	// Leaf, Fingerprint and Chain, the certificates after the leaf, are empty in a bundle.
	Leaf        *x509.Certificate
	Fingerprint string
	Chain       []*x509.Certificate
	Roots       []*x509.Certificate
	// Files are the files to write, by name. They include the private key.
	Files map[string][]byte
}

// Found is a content, or the reason why it cannot be used. Both are nil if there are no files.
type Found struct {
	Content *Content
	Problem error
}

// Read parses a store's files. Its errors never contain key material. roots are the CA certificates to
// use if the files have no bundle.
func Read(s *Store, f Files, roots []*x509.Certificate) (*Content, error) {
	c := &Content{Roots: roots, Files: map[string][]byte{}}
	if f.Bundle != nil {
		var err error
		if c.Roots, err = pki.ParseCertificates(f.Bundle); err != nil {
			return nil, fmt.Errorf("%s: %w", BundleFile, err)
		}
	}
	if s.Kind == Bundle {
		if len(c.Roots) == 0 {
			return nil, errors.New(BundleFile + ": does not exist")
		}
		c.Files[BundleFile] = pki.EncodeCertificates(c.Roots...)
		return c.identify(s), nil
	}
	return c.pair(s, f)
}

func (c *Content) pair(s *Store, f Files) (*Content, error) {
	cert, key := f.Cert, f.Key
	if cert == nil && key == nil && f.Combined != nil {
		cert, key = split(f.Combined)
	}
	if cert == nil || key == nil {
		return nil, fmt.Errorf("%s and %s: must both exist", CertFile, KeyFile)
	}
	certs, err := pki.ParseCertificates(cert)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", CertFile, err)
	}
	signer, err := pki.ParseForeignKey(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", KeyFile, err)
	}
	if !pki.KeyMatches(certs[0], signer) {
		return nil, fmt.Errorf("the key in %s does not belong to the certificate in %s", KeyFile, CertFile)
	}
	c.Leaf, c.Chain, c.Fingerprint = certs[0], certs[1:], pki.Fingerprint(certs[0])
	block, _ := pem.Decode(key)
	key = pem.EncodeToMemory(block) // normalized, so that OpenSSL accepts the line lengths
	c.Files[CertFile], c.Files[KeyFile] = pki.EncodeCertificates(certs...), key
	if len(c.Roots) > 0 {
		c.Files[BundleFile] = pki.EncodeCertificates(c.Roots...)
	}
	if s.Combined {
		c.Files[s.CombinedFile()] = bytes.Join([][]byte{c.Files[CertFile], key}, nil)
	}
	return c.identify(s), nil
}

func (c *Content) identify(s *Store) *Content {
	h := sha256.New()
	fmt.Fprintf(h, "%t %d %d\n", s.Combined, len(c.Files[CertFile]), len(c.Files[KeyFile]))
	h.Write(c.Files[CertFile])
	h.Write(c.Files[KeyFile])
	h.Write(c.Files[BundleFile])
	c.ID = hex.EncodeToString(h.Sum(nil))
	return c
}

// withRoots returns the content of a pair with the CA bundle replaced by roots.
func (c *Content) withRoots(s *Store, roots []*x509.Certificate) *Content {
	out := *c
	out.Roots, out.Files = roots, maps.Clone(c.Files)
	if delete(out.Files, BundleFile); len(roots) > 0 {
		out.Files[BundleFile] = pki.EncodeCertificates(roots...)
	}
	return out.identify(s)
}

// split returns the certificates and the key of a file that has both, in any order.
func split(combined []byte) (cert, key []byte) {
	for block, rest := pem.Decode(combined); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			cert = append(cert, pem.EncodeToMemory(block)...)
		} else {
			key = append(key, pem.EncodeToMemory(block)...)
		}
	}
	return cert, key
}

// Fault returns why the content must not be installed, or nil. roots are the CA certificates that
// clients trust.
func (c *Content) Fault(s *Store, roots []*x509.Certificate, now time.Time) error {
	if s.Kind == Bundle {
		if pki.NewBundle(c.Roots...).Unexpired(now).PEM() == nil {
			return fmt.Errorf("all %d CA certificates have expired", len(c.Roots))
		}
		return nil
	}
	switch {
	case now.Before(c.Leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s, and it is now %s", stamp(c.Leaf.NotBefore), stamp(now))
	case now.After(c.Leaf.NotAfter):
		return fmt.Errorf("the certificate expired at %s", stamp(c.Leaf.NotAfter))
	}
	for _, name := range s.Names {
		if !covers(c.Leaf, name) {
			return fmt.Errorf("the certificate is not for %q, which the store's names require", name)
		}
	}
	return c.verify(roots, now)
}

// covers is VerifyHostname, except that a wildcard also covers itself.
func covers(leaf *x509.Certificate, name string) bool {
	for _, own := range leaf.DNSNames {
		if own == name {
			return true
		}
	}
	return leaf.VerifyHostname(name) == nil
}

func (c *Content) verify(roots []*x509.Certificate, now time.Time) error {
	if len(roots) == 0 {
		return nil // without a bundle it cannot be verified
	}
	// With all roots at once, since each call may verify 100 signatures, and the source may name many roots.
	if _, err := pki.VerifiedUntil(c.Leaf, c.Chain, roots, now); err != nil {
		return fmt.Errorf("the certificate does not verify under %s: %w", BundleFile, err)
	}
	return nil
}

// sharesName reports whether two certificates have a name in common.
func sharesName(a, b *x509.Certificate) bool {
	for _, name := range b.DNSNames {
		if covers(a, name) {
			return true
		}
	}
	for _, ip := range b.IPAddresses {
		if a.VerifyHostname(ip.String()) == nil {
			return true
		}
	}
	return len(b.DNSNames)+len(b.IPAddresses) == 0
}

// Worse returns why next must not replace the installed content here, or nil.
func Worse(s *Store, here Found, next *Content, now time.Time) error {
	if err := next.Fault(s, next.Roots, now); err != nil {
		return err
	}
	old := here.Content
	if s.Kind == Bundle || old == nil {
		return nil
	}
	// A certificate of a CA that clients no longer trust may be replaced by an older one.
	valid := old.Fault(s, next.Roots, now) == nil
	if !valid {
		return nil
	}
	if len(s.Names) == 0 && !sharesName(next.Leaf, old.Leaf) {
		return fmt.Errorf("the certificate has none of the names of the installed one, such as %q", firstName(old.Leaf))
	}
	if next.Leaf.NotBefore.Before(old.Leaf.NotBefore) {
		return fmt.Errorf("the certificate of %s is older than the installed one of %s, which is still valid", stamp(next.Leaf.NotBefore), stamp(old.Leaf.NotBefore))
	}
	return nil
}

func firstName(c *x509.Certificate) string {
	if len(c.DNSNames) > 0 {
		return c.DNSNames[0]
	}
	return c.IPAddresses[0].String() // sharesName returned false, so there is one
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// NotAfter returns when the leaf expires, or for a bundle its first certificate; zero for nil.
func (c *Content) NotAfter() (first time.Time) {
	if c == nil {
		return first
	}
	if c.Leaf != nil {
		return c.Leaf.NotAfter
	}
	for _, root := range c.Roots {
		first = limit.EarliestSet(first, root.NotAfter)
	}
	return first
}
