package pki

import (
	"crypto"
	"crypto/x509"
	"time"
)

// Authority is a CA at one moment: everything that signing a leaf and checking
// one takes. It is immutable; a changed CA is a new Authority.
type Authority struct {
	Certificate *x509.Certificate // of the key that signs
	Key         crypto.Signer
	Chain       []*x509.Certificate // served after the leaf; never a self-signed root
	Bundle      Bundle              // every root that a client may hold
	// SignUntil is the latest NotAfter that a leaf may have: the CA's promise,
	// written down before it is used, of when it is last needed.
	SignUntil time.Time
}
