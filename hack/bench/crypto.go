package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"io"
	"log"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// bareCrypto is the cryptography of one certificate, and nothing else.
type bareCrypto struct {
	sign  issue.Sign
	ca    *pki.Authority
	roots *x509.CertPool
	now   time.Time
}

func newCrypto() (*bareCrypto, error) {
	log.SetOutput(io.Discard) // cfssl logs every certificate there
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	root, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc", "svc.cluster.local"}}, pki.NotBefore(now), now.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	c := &bareCrypto{
		ca:    &pki.Authority{Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: root.NotAfter},
		roots: x509.NewCertPool(), now: now,
	}
	c.roots.AddCert(root)
	c.sign, err = cfssl.NewLocal()
	return c, err
}

// once makes a key and a CSR, has cfssl sign, and verifies the certificate.
func (c *bareCrypto) once(ctx context.Context) error {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return err
	}
	leaf, err := c.sign(ctx, c.ca, issue.SigningRequest{
		CSR: issue.EncodeCSR(csr), DNSNames: []string{"web.shop.svc", "web.shop.svc.cluster.local"}, KeyAlgorithm: pki.ECDSAP256,
		NotBefore: pki.NotBefore(c.now), NotAfter: c.now.Add(time.Hour),
	})
	if err != nil {
		return err
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: c.roots, DNSName: "web.shop.svc", CurrentTime: c.now})
	return err
}

// bare returns the CPU time of the cryptography of one certificate: key, CSR, cfssl's
// signature and one verification, the mean of n.
func bare(ctx context.Context, n int) (time.Duration, error) {
	c, err := newCrypto()
	if err != nil {
		return 0, err
	}
	before, err := ownCPU()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := c.once(ctx); err != nil {
			return 0, err
		}
	}
	after, err := ownCPU()
	return (after - before) / time.Duration(n), err
}

// ownCPU is the CPU time of this process, to the microsecond.
func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}
