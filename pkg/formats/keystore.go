package formats

import (
	"bytes"
	"crypto"
	"crypto/fips140"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math"
	"slices"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/pki"
)

// What of format Keystore is a contract.
const (
	KeystoreFile = "keystore.p12"
	// DefaultPassword is the password of a Pair that names none. It is what Java's keytool and
	// most manuals say.
	DefaultPassword = "changeit"
	// MinPassword and MaxPassword bound a password, in bytes. Java's keytool refuses a shorter one.
	MinPassword, MaxPassword = 6, 128
)

// Keystore is the key with its certificate and what is served after it, in PKCS #12, without a
// root. It is encrypted as OpenSSL 3 and current Java do by default.
var Keystore = Format{
	Name:       "keystore",
	Word:       KeystoreFile,
	Variable:   "TLS_KEYSTORE_FILE",
	Files:      []string{KeystoreFile},
	PrivateKey: true,
	Password:   true,
	Make:       makeKeystore,
	Holds:      holdsKeystore,
}

// CheckPassword returns what is wrong with a password and what is allowed, or "". Programs read
// passwords out of variables, properties and XML: one of printable ASCII means the same in each.
func CheckPassword(password string) string {
	if len(password) < MinPassword || len(password) > MaxPassword {
		return fmt.Sprintf("must be %d to %d bytes", MinPassword, MaxPassword)
	}
	for _, b := range []byte(password) {
		if b <= ' ' || b > '~' || b == '$' { // the kubelet replaces $(NAME)
			return "must be printable ASCII without spaces and dollar signs"
		}
	}
	return ""
}

// password is that of the pair's files.
func (p Pair) password() string {
	if p.Password == "" {
		return DefaultPassword
	}
	return p.Password
}

// parse returns the key and the certificates of the pair without roots.
func (p Pair) parse() (key crypto.Signer, leaf *x509.Certificate, chain []*x509.Certificate, err error) {
	certs, err := pki.ParseCertificates(p.Cert)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("certificate: %w", err)
	}
	if key, err = pki.ParseKey(p.Key); err != nil {
		return nil, nil, nil, fmt.Errorf("key: %w", err)
	}
	for _, c := range certs[1:] {
		if !bytes.Equal(c.RawIssuer, c.RawSubject) {
			chain = append(chain, c)
		}
	}
	return key, certs[0], chain, nil
}

func makeKeystore(pair Pair) (map[string][]byte, error) {
	key, leaf, chain, err := pair.parse()
	if err != nil {
		return nil, err
	}
	var file []byte
	notInStrictFIPS(func() { file, err = pkcs12.Modern2023.Encode(key, leaf, chain, pair.password()) })
	return map[string][]byte{KeystoreFile: file}, err
}

// notInStrictFIPS has GODEBUG=fips140=only let go-pkcs12 work, where it would panic: the key and its
// certificate are joined by an identifier that is a SHA-1, and a file of anybody's making may
// name any algorithm. What Make encrypts, it encrypts with AES and PBKDF2 with SHA-256.
func notInStrictFIPS(do func()) { fips140.WithoutEnforcement(do) }

// holdsKeystore reports whether the file opens with the password and has the pair.
func holdsKeystore(pair Pair, data map[string][]byte) bool {
	file := data[KeystoreFile]
	if len(file) > len(pair.Cert)+len(pair.Key)+keystoreOverhead || checkIterations(file) != nil {
		return false
	}
	key, leaf, chain, err := pair.parse()
	if err != nil {
		return false
	}
	var (
		haveKey   any
		haveLeaf  *x509.Certificate
		haveChain []*x509.Certificate
	)
	notInStrictFIPS(func() { haveKey, haveLeaf, haveChain, err = pkcs12.DecodeChain(file, pair.password()) })
	if err != nil || !haveLeaf.Equal(leaf) || !slices.EqualFunc(haveChain, chain, (*x509.Certificate).Equal) {
		return false
	}
	signer, ok := key.(interface{ Equal(crypto.PrivateKey) bool })
	return ok && signer.Equal(haveKey)
}

// keystoreOverhead is more than a file has beside what is in the pair in PEM: 600 bytes are usual.
const keystoreOverhead = 4 << 10

// maxIterations is the most iterations of a key derivation that are done for a file of anybody's
// making; Make asks for 2048. OpenSSL and Java write 10 000 and less.
const maxIterations = 10_000

// checkIterations returns an error if a key derivation in the file has more iterations than
// that. The parameters of all are in plain sight, and nothing else in the DER that is not
// encrypted is as large an INTEGER.
func checkIterations(der []byte) error {
	for len(der) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			return err
		}
		der = rest
		switch {
		case v.Class == asn1.ClassUniversal && v.Tag == asn1.TagInteger:
			var n int64
			if _, err := asn1.Unmarshal(v.FullBytes, &n); err != nil || n > maxIterations || n < math.MinInt32 {
				return errors.New("a number is too large")
			}
		case v.IsCompound:
			if err := checkIterations(v.Bytes); err != nil {
				return err
			}
		case v.Class == asn1.ClassUniversal && v.Tag == asn1.TagOctetString && len(v.Bytes) > 0 && v.Bytes[0] == 0x30:
			// What is in here may be DER, or a salt or what is encrypted.
			var inner asn1.RawValue
			if rest, err := asn1.Unmarshal(v.Bytes, &inner); err == nil && len(rest) == 0 {
				if err := checkIterations(inner.Bytes); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
