package pki

import "fmt"

// Limits of what is parsed. The cost of reading an RSA key grows with the third power of
// its length, so lengths are checked before anything is decoded.
const (
	// MaxKey is the most bytes of a private key in PEM: one of RSA with 8192 bits has
	// 6.4 KB, and the largest that is issued, of 4096 bits, has 3.3 KB.
	MaxKey = 8 << 10
	// MaxRSA is the most bits of an RSA key in a certificate. A key of 450 000 bits fits in
	// MaxCertificate, and verifying what it signed takes half a minute. crypto/tls has the same limit.
	MaxRSA = 8192
	// maxIssuedRSA is the most bits of an RSA key that is issued (RSA4096).
	maxIssuedRSA = 4096
	// MaxCertificate is the most bytes of a certificate in DER: 100 names of 253
	// characters have 26 KB.
	MaxCertificate = 64 << 10
	// MaxCertificates is the most bytes of certificates in PEM that are read together: a
	// leaf and its chain, or a CA bundle.
	MaxCertificates = 256 << 10
)

// checkSize returns an error if the data is longer than most bytes.
func checkSize(data []byte, most int) error {
	if len(data) > most {
		return fmt.Errorf("%d bytes: must be at most %d", len(data), most)
	}
	return nil
}
