// Package certs creates a CA and the key pairs with which the components of a control plane
// authenticate each other, as files.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Authority is a CA whose key is kept in memory only, unless WriteKey is called. It is not
// safe for concurrent use.
type Authority struct {
	CAFile string
	CAPEM  []byte

	dir    string
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// KeyPair is a certificate with its key, as files and as PEM.
type KeyPair struct {
	CertFile, KeyFile string
	CertPEM, KeyPEM   []byte
}

// New creates a CA with the given common name. Its certificate is DIR/FILE.crt, and the key
// pairs that it issues are written to the same directory.
func New(dir, file, commonName string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, CAFile: filepath.Join(dir, file+".crt")}
	var err error
	if a.key, _, err = newKey(); err != nil {
		return nil, err
	}
	template := certificate(commonName, a.nextSerial())
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("create CA %q: %w", commonName, err)
	}
	if a.ca, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.CAPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, os.WriteFile(a.CAFile, a.CAPEM, 0o600)
}

// WriteKey writes the CA's key, for a program that signs with it.
func (a *Authority) WriteKey(file string) error {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// IssueClient issues the certificate of a user: the common name is the user's name, the
// organizations are its groups.
func (a *Authority) IssueClient(file, user string, groups ...string) (KeyPair, error) {
	return a.Issue(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Issue issues a certificate with the subject, names and usages of want, and writes FILE.crt
// and FILE.key. If the subject has no common name, it is FILE.
func (a *Authority) Issue(file string, want *x509.Certificate) (KeyPair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return KeyPair{}, err
	}
	template := certificate(file, a.nextSerial())
	if want.Subject.CommonName != "" {
		template.Subject = want.Subject
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = want.ExtKeyUsage
	template.DNSNames, template.IPAddresses = want.DNSNames, want.IPAddresses
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, key.Public(), a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("sign the certificate %s: %w", file, err)
	}
	pair := KeyPair{
		CertFile: filepath.Join(a.dir, file+".crt"),
		KeyFile:  filepath.Join(a.dir, file+".key"),
		CertPEM:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:   keyPEM,
	}
	if err := os.WriteFile(pair.CertFile, pair.CertPEM, 0o600); err != nil {
		return KeyPair{}, err
	}
	return pair, os.WriteFile(pair.KeyFile, pair.KeyPEM, 0o600)
}

// Issued returns the number of certificates, including the CA's own.
func (a *Authority) Issued() int64 { return a.serial }

func (a *Authority) nextSerial() *big.Int {
	a.serial++
	return big.NewInt(a.serial)
}

// certificate returns a template that is valid for ten years, since an hour ago, as tests
// move their clocks.
func certificate(name string, serial *big.Int) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(10, 0, 0),
	}
}

// WriteKey writes a new private key without a certificate, such as the one that signs
// ServiceAccount tokens.
func WriteKey(file string) error {
	_, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	return os.WriteFile(file, keyPEM, 0o600)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
