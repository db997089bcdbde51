package formats

import (
	"crypto"
	"crypto/fips140"
	"crypto/x509"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/servingcert/servingcert/pkg/pki"
)

// The names and limits of format Keystore, which are a contract.
const (
	KeystoreFile = "keystore.p12"
	// PBMAC1File is KeystoreFile with a MAC that FIPS 140 allows.
	PBMAC1File = "keystore-pbmac1.p12"
	// DefaultPassword is the password of a Pair without one: the default in Java's documentation.
	DefaultPassword = "changeit"
	// MinPassword and MaxPassword bound a password, in bytes. Java's keytool refuses shorter ones.
	MinPassword, MaxPassword = 6, 128
)

// Keystore is the key with its certificate and chain, without a root, in PKCS #12. The encryption
// is the default of OpenSSL 3 and current Java.
var Keystore = Format{
	Name:       "keystore",
	Word:       KeystoreFile,
	Variable:   "TLS_KEYSTORE_FILE",
	Files:      []string{KeystoreFile},
	PrivateKey: true,
	Password:   true,
	Salted:     true,
	Make:       func(pair Pair) (map[string][]byte, error) { return makeKeystore(KeystoreFile, pkcs12.Modern2023, pair) },
}

// PBMAC1 is a Keystore whose MAC is made with PBKDF2 (RFC 9579) instead of the key derivation of
// PKCS #12, which FIPS 140 does not approve. OpenSSL 3.4, Java 26 and later versions read it.
var PBMAC1 = Format{
	Name:       "pbmac",
	Word:       "pbmac1",
	Files:      []string{PBMAC1File},
	PrivateKey: true,
	Password:   true,
	Salted:     true,
	Make:       func(pair Pair) (map[string][]byte, error) { return makeKeystore(PBMAC1File, pkcs12.Modern2026, pair) },
}

// CheckPassword returns what is allowed if the password is not valid, or "". Programs read
// passwords from variables, properties and XML: printable ASCII means the same in each.
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

// password returns the password of the pair's files.
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
		if !pki.SelfIssued(c) {
			chain = append(chain, c)
		}
	}
	return key, certs[0], chain, nil
}

func makeKeystore(name string, encoder *pkcs12.Encoder, pair Pair) (map[string][]byte, error) {
	key, leaf, chain, err := pair.parse()
	if err != nil {
		return nil, err
	}
	var file []byte
	notInStrictFIPS(func() { file, err = encoder.Encode(key, leaf, chain, pair.password()) })
	return map[string][]byte{name: file}, err
}

// notInStrictFIPS lets go-pkcs12 work under GODEBUG=fips140=only, where it would panic: the key and
// its certificate are linked by an identifier that is a SHA-1. The encryption is AES, with PBKDF2
// and SHA-256.
func notInStrictFIPS(do func()) { fips140.WithoutEnforcement(do) }
