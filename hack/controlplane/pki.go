package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// pki is what the components authenticate each other with: one CA, a key pair for
// each of them, and the key that signs ServiceAccount tokens.
type pki struct {
	caFile         string
	caPEM          []byte
	serving        keyPair
	admin          keyPair
	manager        keyPair
	accountKeyFile string

	dir    string
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	serial int64
}

type keyPair struct {
	certFile, keyFile string
	certPEM, keyPEM   []byte
}

// newPKI writes fresh keys and certificates into dir.
func newPKI(dir string, serviceIP netip.Addr) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &pki{dir: dir, caFile: filepath.Join(dir, "ca.crt"), accountKeyFile: filepath.Join(dir, "serviceaccount.key")}
	if err := p.makeCA(); err != nil {
		return nil, err
	}
	var err error
	if p.serving, err = p.issue("kube-apiserver", &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IP(serviceIP.AsSlice())},
		DNSNames:    []string{"localhost", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
	}); err != nil {
		return nil, err
	}
	if p.admin, err = p.issueClient("admin", "servingcert:admin", "system:masters"); err != nil {
		return nil, err
	}
	if p.manager, err = p.issueClient(KubeControllerManager, "system:kube-controller-manager"); err != nil {
		return nil, err
	}
	_, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.accountKeyFile, keyPEM, 0o600)
}

func (p *pki) makeCA() error {
	key, _, err := newKey()
	if err != nil {
		return err
	}
	template := certificate("control plane CA", p.nextSerial())
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make the control plane's CA: %w", err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	p.caKey = key
	p.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return os.WriteFile(p.caFile, p.caPEM, 0o600)
}

// issueClient makes the certificate of a user: the common name is the user's name,
// organizations are its groups.
func (p *pki) issueClient(file, user string, groups ...string) (keyPair, error) {
	return p.issue(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue signs a certificate with the subject, names and usages of want and writes
// FILE.crt and FILE.key.
func (p *pki) issue(file string, want *x509.Certificate) (keyPair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	template := certificate(file, p.nextSerial())
	if want.Subject.CommonName != "" {
		template.Subject = want.Subject
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = want.ExtKeyUsage
	template.DNSNames, template.IPAddresses = want.DNSNames, want.IPAddresses
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, key.Public(), p.caKey)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %s: %w", file, err)
	}
	pair := keyPair{
		certFile: filepath.Join(p.dir, file+".crt"),
		keyFile:  filepath.Join(p.dir, file+".key"),
		certPEM:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:   keyPEM,
	}
	if err := os.WriteFile(pair.certFile, pair.certPEM, 0o600); err != nil {
		return keyPair{}, err
	}
	return pair, os.WriteFile(pair.keyFile, pair.keyPEM, 0o600)
}

func (p *pki) nextSerial() *big.Int {
	p.serial++
	return big.NewInt(p.serial)
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
