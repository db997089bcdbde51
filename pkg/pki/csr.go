package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
)

// NewCSR returns a certificate signing request (RFC 2986) in DER that says nothing but the
// key, and is signed with it.
//
// For the algorithm that nearly all certificates have it is put together here:
// x509.CreateCertificateRequest verifies the signature that it has made, and the CA verifies
// the same signature once more, because it must. A verification is a tenth of what a
// certificate costs.
func NewCSR(key crypto.Signer) ([]byte, error) {
	if k, ok := key.(*ecdsa.PrivateKey); ok && k.Curve == elliptic.P256() {
		return newP256CSR(k)
	}
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// Parts of a CSR that are the same in all.
var (
	// csrHead is version 0 and an empty subject, csrTail no attributes ([0] IMPLICIT SET).
	csrHead = []byte{asn1.TagInteger, 1, 0, sequence, 0}
	csrTail = []byte{0xa0, 0}
	// ecdsaWithSHA256 is the AlgorithmIdentifier 1.2.840.10045.4.3.2, without parameters (RFC 5758).
	ecdsaWithSHA256 = []byte{sequence, 10, asn1.TagOID, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2}
)

// sequence is the identifier of a SEQUENCE, whose contents are constructed.
const sequence = asn1.TagSequence | 0x20

func newP256CSR(key *ecdsa.PrivateKey) ([]byte, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	info := derOf(sequence, csrHead, public, csrTail)
	digest := sha256.Sum256(info)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return nil, fmt.Errorf("sign certificate request: %w", err)
	}
	noUnusedBits := []byte{0}
	return derOf(sequence, info, ecdsaWithSHA256, derOf(asn1.TagBitString, noUnusedBits, signature)), nil
}

// derOf returns an element with the contents, which are shorter than 64 KiB.
func derOf(identifier byte, contents ...[]byte) (out []byte) {
	n := 0
	for _, c := range contents {
		n += len(c)
	}
	switch {
	case n < 1<<7:
		out = append(out, identifier, byte(n))
	case n < 1<<8:
		out = append(out, identifier, 0x81, byte(n))
	default:
		out = append(out, identifier, 0x82, byte(n>>8), byte(n))
	}
	for _, c := range contents {
		out = append(out, c...)
	}
	return out
}
