package pki

import "fmt"

// Limits on parsed data. The cost of reading an RSA key grows with the third power of its
// length, so lengths are checked before decoding.
const (
	// MaxKey is the largest size of a private key in PEM, in bytes: an RSA key of 8192 bits has
	// 6.4 KB, and the largest that is issued, of 4096 bits, has 3.3 KB.
	MaxKey = 8 << 10
	// MaxRSA is the largest size of an RSA key in a certificate, in bits, as in crypto/tls. A key
	// of 450 000 bits fits in MaxCertificate, and verifying its signature takes half a minute.
	MaxRSA = 8192
	// maxIssuedRSA is the size of the largest RSA key that is issued, in bits (RSA4096).
	maxIssuedRSA = 4096
	// MaxCertificate is the largest size of a certificate in DER, in bytes: 100 names of 253
	// characters have 26 KB.
	MaxCertificate = 64 << 10
	// MaxCertificates is the largest size of certificates in PEM that are read together, in
	// bytes: a leaf and its chain, or a CA bundle.
	MaxCertificates = 256 << 10
)

// checkSize returns an error if the data has more than most bytes.
func checkSize(data []byte, most int) error {
	if len(data) > most {
		return fmt.Errorf("%d bytes: must be at most %d", len(data), most)
	}
	return nil
}
