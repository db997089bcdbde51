package keymaterial

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// SelfSigned returns a certificate that has a name n times, and its key, both in PEM.
func SelfSigned(name string, n int) (certPEM, keyPEM []byte) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: slices.Repeat([]string{name}, n), NotAfter: time.Unix(4e9, 0)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), must(pki.EncodeKey(key))
}

// AbsurdKey returns an RSA key of about size bytes, as PKCS #8 in PEM. Its numbers have the lengths of
// those of a key, and are not prime.
func AbsurdKey(size int) []byte {
	number := func(bits int) *big.Int {
		n := new(big.Int).Lsh(big.NewInt(1), uint(bits)) //nolint:gosec // positive
		return n.Add(n, big.NewInt(1))
	}
	bits := size * 2
	p, q := number(bits/2), number(bits/2+2)
	inner := must(asn1.Marshal(struct {
		Version             int
		N                   *big.Int
		E                   int
		D, P, Q, Dp, Dq, Qi *big.Int
	}{0, new(big.Int).Mul(p, q), 65537, number(bits - 1), p, q, number(bits / 2), number(bits / 2), number(bits / 2)}))
	outer := must(asn1.Marshal(struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}, inner}))
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: outer})
}

// must is for what cannot fail: there is randomness, and what is encoded can be.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
