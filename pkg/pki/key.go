// Package pki handles keys, certificates, chains and bundles, independently of
// Kubernetes: it generates and checks key pairs, computes when a certificate must be
// renewed ([RenewAt]), creates CA certificates ([NewRoot]), and makes CA bundles whose
// bytes depend only on their content ([Bundle]). It uses the standard library only, and
// takes the time as an argument.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/mldsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeyAlgorithm names a kind and size of key. The spelling is that of the
// keyType of Kubernetes' podCertificate volume source (KEP-4317).
type KeyAlgorithm string

// The key algorithms that a serving certificate may have.
const (
	ECDSAP256 KeyAlgorithm = "ECDSAP256"
	ECDSAP384 KeyAlgorithm = "ECDSAP384"
	ECDSAP521 KeyAlgorithm = "ECDSAP521"
	Ed25519   KeyAlgorithm = "ED25519"
	RSA2048   KeyAlgorithm = "RSA2048"
	RSA3072   KeyAlgorithm = "RSA3072"
	RSA4096   KeyAlgorithm = "RSA4096"
	// MLDSA44 and MLDSA65 are post-quantum signatures (FIPS 204, RFC 9881), for TLS 1.3 only.
	MLDSA44 KeyAlgorithm = "MLDSA44"
	MLDSA65 KeyAlgorithm = "MLDSA65"
)

// KeyAlgorithms lists all, in the order of the documentation.
func KeyAlgorithms() []KeyAlgorithm {
	return []KeyAlgorithm{ECDSAP256, ECDSAP384, ECDSAP521, Ed25519, RSA2048, RSA3072, RSA4096, MLDSA44, MLDSA65}
}

// ParseKeyAlgorithm returns the algorithm named s, or an error that lists what
// is allowed.
func ParseKeyAlgorithm(s string) (KeyAlgorithm, error) {
	if slices.Contains(KeyAlgorithms(), KeyAlgorithm(s)) {
		return KeyAlgorithm(s), nil
	}
	names := make([]string, 0, len(KeyAlgorithms()))
	for _, a := range KeyAlgorithms() {
		names = append(names, string(a))
	}
	return "", fmt.Errorf("unknown key algorithm %q: must be one of %s", s, strings.Join(names, ", "))
}

// IsRSA reports whether keys of the algorithm can encipher keys (RSA key exchange of
// TLS 1.2), which determines the key usages of their certificates.
func (a KeyAlgorithm) IsRSA() bool { return strings.HasPrefix(string(a), "RSA") }

// IsMLDSA reports whether keys of the algorithm are post-quantum, which few TLS stacks can use yet.
func (a KeyAlgorithm) IsMLDSA() bool { return a == MLDSA44 || a == MLDSA65 }

// GenerateKey generates a new key. It fails only for an unknown algorithm, if the source of
// randomness fails, or for ML-DSA with a FIPS 140-3 module that does not have it (v1.0.0).
func GenerateKey(a KeyAlgorithm) (crypto.Signer, error) {
	switch a {
	case ECDSAP256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case ECDSAP384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case ECDSAP521:
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case RSA2048:
		return rsa.GenerateKey(rand.Reader, 2048)
	case RSA3072:
		return rsa.GenerateKey(rand.Reader, 3072)
	case RSA4096:
		return rsa.GenerateKey(rand.Reader, 4096)
	case MLDSA44:
		return generateMLDSA(mldsa.MLDSA44())
	case MLDSA65:
		return generateMLDSA(mldsa.MLDSA65())
	}
	_, err := ParseKeyAlgorithm(string(a))
	return nil, err
}

func generateMLDSA(p mldsa.Parameters) (crypto.Signer, error) {
	key, err := mldsa.GenerateKey(p)
	if err != nil {
		return nil, err // and not a nil pointer in an interface
	}
	return key, nil
}

// AlgorithmOf returns the algorithm of a public key, and false for a kind or
// size that servingcert does not issue.
func AlgorithmOf(pub crypto.PublicKey) (KeyAlgorithm, bool) {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return ECDSAP256, true
		case elliptic.P384():
			return ECDSAP384, true
		case elliptic.P521():
			return ECDSAP521, true
		}
	case ed25519.PublicKey:
		return Ed25519, true
	case *rsa.PublicKey:
		switch k.N.BitLen() {
		case 2048:
			return RSA2048, true
		case 3072:
			return RSA3072, true
		case 4096:
			return RSA4096, true
		}
	case *mldsa.PublicKey:
		switch k.Parameters() {
		case mldsa.MLDSA44():
			return MLDSA44, true
		case mldsa.MLDSA65():
			return MLDSA65, true
		}
	}
	return "", false
}

// Types of the PEM blocks that servingcert reads and writes (RFC 7468).
const (
	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
)

// EncodeKey returns the key as PKCS #8 in PEM, which every TLS stack reads for
// every algorithm (OpenSSL cannot read Ed25519 in any other form).
func EncodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

// ParseForeignKey reads one key in PEM in any of the forms that other tools write:
// PKCS #8, PKCS #1 (RSA) and SEC 1 (EC), of at most MaxKey bytes. Errors never contain key material.
func ParseForeignKey(data []byte) (crypto.Signer, error) {
	block, err := keyBlock(data)
	if err != nil {
		return nil, err
	}
	switch block.Type {
	case "RSA PRIVATE KEY":
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return key, nil
		}
	case "EC PRIVATE KEY":
		if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			return key, nil
		}
	case pemPrivateKey:
		return ParseKey(data)
	default:
		return nil, fmt.Errorf("PEM block is a %q: must be a private key that is not encrypted", block.Type)
	}
	return nil, fmt.Errorf("PEM block %q cannot be decoded", block.Type)
}

// ErrNotPKCS8 reports that a key is, or may be, in another form.
var ErrNotPKCS8 = errors.New("PKCS #8")

// ParseKey reads one PKCS #8 key in PEM, of at most MaxKey bytes. Errors never contain key
// material.
func ParseKey(data []byte) (crypto.Signer, error) {
	block, err := keyBlock(data)
	if err != nil {
		return nil, err
	}
	if block.Type != pemPrivateKey {
		return nil, fmt.Errorf("PEM block is a %q, must be a %q (%w)", block.Type, pemPrivateKey, ErrNotPKCS8)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the private key is not valid PKCS #8")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the private key cannot sign")
	}
	return signer, nil
}

// keyBlock returns the only PEM block of the data. It rejects text before the block, and headers such as those
// of an encrypted key: Go skips both, but another program may fail on them, as OpenSSL does on headers.
func keyBlock(data []byte) (*pem.Block, error) {
	if err := checkSize(data, MaxKey); err != nil {
		return nil, err
	}
	block, rest := pem.Decode(data)
	switch {
	case block == nil:
		return nil, errors.New("no PEM block in the private key")
	case !beginsWithBlock(data, rest):
		return nil, errors.New("text before the private key")
	case len(block.Headers) > 0:
		return nil, errors.New("the private key has PEM headers")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("data after the private key")
	}
	return block, checkRSA(block, MaxRSA)
}

// CheckIssuable returns an error if the key in PEM is an RSA key of more bits than any that is issued.
// It costs little whatever the key is, where ParseKey takes milliseconds.
func CheckIssuable(data []byte) error {
	if err := checkSize(data, MaxKey); err != nil {
		return err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil // ParseKey reports what is wrong
	}
	return checkRSA(block, maxIssuedRSA)
}

// checkRSA returns an error if one of the numbers of an RSA key has more than most bits: crypto/rsa computes with
// all of them before it rejects an invalid key. Other keys pass.
func checkRSA(block *pem.Block, most int) error {
	der := block.Bytes
	if block.Type == pemPrivateKey {
		var outer struct { // RFC 5208, PrivateKeyInfo
			Version   int
			Algorithm asn1.RawValue
			Key       []byte
		}
		if _, err := asn1.Unmarshal(der, &outer); err != nil {
			return nil //nolint:nilerr // ParseKey reports what is wrong
		}
		der = outer.Key
	}
	var numbers []asn1.RawValue // RFC 8017, RSAPrivateKey
	if _, err := asn1.Unmarshal(der, &numbers); err != nil {
		return nil //nolint:nilerr // not an RSA key
	}
	for _, n := range numbers {
		if bits := 8 * (len(n.Bytes) - 1); n.Class == asn1.ClassUniversal && bits > most { // without a leading zero
			return fmt.Errorf("RSA key of %d bits: must be at most %d", bits, most)
		}
	}
	return nil
}

// KeyMatches reports whether key is the private half of the certificate's key.
func KeyMatches(cert *x509.Certificate, key crypto.Signer) bool {
	pub, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(key.Public())
}
