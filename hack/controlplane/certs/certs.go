// Package certs makes what the components of a control plane authenticate each
// other with: a CA, and key pairs that it signs, as files.
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

// Authority is a CA whose key is nowhere but in memory, unless WriteKey is called. It is not
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

// New makes a CA with the given common name. Its certificate is DIR/FILE.crt, and
// the key pairs that it issues go into the same directory.
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
		return nil, fmt.Errorf("make CA %q: %w", commonName, err)
	}
	if a.ca, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.CAPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, os.WriteFile(a.CAFile, a.CAPEM, 0o600)
}

// WriteKey writes the key of the CA, for a program that signs with it.
func (a *Authority) WriteKey(file string) error {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// IssueClient makes the certificate of a user: the common name is the user's name,
// organizations are its groups.
func (a *Authority) IssueClient(file, user string, groups ...string) (KeyPair, error) {
	return a.Issue(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Issue signs a certificate with the subject, names and usages of want and writes
// FILE.crt and FILE.key. A subject without a common name becomes FILE.
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
		return KeyPair{}, fmt.Errorf("sign the certificate of %s: %w", file, err)
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

// Issued is how many certificates there are, the CA's own included.
func (a *Authority) Issued() int64 { return a.serial }

func (a *Authority) nextSerial() *big.Int {
	a.serial++
	return big.NewInt(a.serial)
}

// certificate is a template that is valid for ten years, from an hour ago: tests
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

// WriteKey writes a new private key alone, such as the one that signs
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
