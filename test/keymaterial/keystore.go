package keymaterial

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
)

// Of PKCS #12 (RFC 7292), PBES2 (RFC 8018) and PBMAC1 (RFC 9579).
var (
	oidData      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidEncrypted = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6}
	oidKeyBag    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 2}
	oidPBKDF2    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidPBES2     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBMAC1    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 14}
	oidHMAC      = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}
	oidAES256    = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}
)

type (
	twoAlgorithms    struct{ First, Second pkix.AlgorithmIdentifier } // parameters of PBES2 and PBMAC1
	pbkdf2Parameters struct {
		Salt               []byte
		Iterations, Length int
		Function           pkix.AlgorithmIdentifier
	}
	typed struct { // a ContentInfo and a SafeBag
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	sealed struct { // an EncryptedPrivateKeyInfo and a DigestInfo
		Algorithm pkix.AlgorithmIdentifier
		Value     []byte
	}
	encryptedContent struct {
		Type      asn1.ObjectIdentifier
		Algorithm pkix.AlgorithmIdentifier
		Value     []byte `asn1:"tag:0"`
	}
	encryptedData struct {
		Version int
		Content encryptedContent
	}
	macData struct {
		Digest     sealed
		Salt       []byte
		Iterations int
	}
	pfx struct {
		Version int
		Safe    typed
		MAC     macData
	}
)

func der(v any) []byte { return must(asn1.Marshal(v)) }

func algorithm(oid asn1.ObjectIdentifier, parameters any) pkix.AlgorithmIdentifier {
	return pkix.AlgorithmIdentifier{Algorithm: oid, Parameters: asn1.RawValue{FullBytes: der(parameters)}}
}

// of returns the value with its type.
func of(oid asn1.ObjectIdentifier, value any) typed {
	return typed{oid, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: der(value)}}
}

// Keystore returns a PKCS #12 file whose key takes that many iterations of a derivation to decrypt. Their
// number is in a part that is encrypted too, with the password and one iteration: from outside, the file
// looks cheap.
func Keystore(password string, iterations int) []byte {
	salt, iv, hash := make([]byte, 16), make([]byte, aes.BlockSize), pkix.AlgorithmIdentifier{Algorithm: oidHMAC}
	key := must(pbkdf2.Key(sha256.New, password, salt, 1, 32))
	derived := func(n int) pkix.AlgorithmIdentifier {
		return algorithm(oidPBKDF2, pbkdf2Parameters{salt, n, len(key), hash})
	}
	encrypted := func(n int) pkix.AlgorithmIdentifier {
		return algorithm(oidPBES2, twoAlgorithms{derived(n), algorithm(oidAES256, iv)})
	}

	bags := der([]typed{of(oidKeyBag, sealed{encrypted(iterations), make([]byte, aes.BlockSize)})})
	padding := aes.BlockSize - len(bags)%aes.BlockSize
	bags = append(bags, bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(must(aes.NewCipher(key)), iv).CryptBlocks(bags, bags)
	safe := der([]typed{of(oidEncrypted, encryptedData{0, encryptedContent{oidData, encrypted(1), bags}})})
	mac := hmac.New(sha256.New, key)
	mac.Write(safe)
	return der(pfx{3, of(oidData, safe), macData{sealed{algorithm(oidPBMAC1, twoAlgorithms{derived(1), hash}), mac.Sum(nil)}, salt, 1}})
}
