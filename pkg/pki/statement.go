package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
)

// SignStatement signs a text that is not a certificate with the key of a CA. The same key and
// text give the same signature. The text must begin with a letter, unlike DER, so that its
// signature is never valid for a certificate.
func SignStatement(key crypto.Signer, text []byte) ([]byte, error) {
	algorithm, err := statementAlgorithm(key.Public())
	if err != nil {
		return nil, err
	}
	if algorithm == x509.PureEd25519 {
		return key.Sign(nil, text, crypto.Hash(0))
	}
	h := crypto.SHA256.New()
	h.Write(text)
	return key.Sign(nil, h.Sum(nil), crypto.SHA256) // without randomness: RFC 6979, PKCS #1 v1.5
}

// VerifyStatement returns an error unless the signature is the CA's signature of the text.
func VerifyStatement(ca *x509.Certificate, text, signature []byte) error {
	algorithm, err := statementAlgorithm(ca.PublicKey)
	if err != nil {
		return err
	}
	return ca.CheckSignature(algorithm, text, signature)
}

func statementAlgorithm(public crypto.PublicKey) (x509.SignatureAlgorithm, error) {
	switch public.(type) {
	case *ecdsa.PublicKey:
		return x509.ECDSAWithSHA256, nil
	case *rsa.PublicKey:
		return x509.SHA256WithRSA, nil
	case ed25519.PublicKey:
		return x509.PureEd25519, nil
	}
	return 0, fmt.Errorf("a key of type %T cannot sign statements", public)
}
