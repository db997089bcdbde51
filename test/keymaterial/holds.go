package keymaterial

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"
)

var (
	// inPEM is how every kind of private key begins in PEM.
	inPEM = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	// inBase64 is what may be base64, of either alphabet.
	inBase64 = regexp.MustCompile(`[A-Za-z0-9+/_-]{32,}`)
	// standard makes one alphabet of the other.
	standard = strings.NewReplacer("-", "+", "_", "/")
)

// algorithms are those of a key in PKCS#8 (RFC 5958), each as an OBJECT IDENTIFIER.
var algorithms = []string{
	"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01",         // id-ecPublicKey
	"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01", // rsaEncryption
	"\x06\x03\x2b\x65\x70",                         // id-Ed25519
	"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x11", // id-ml-dsa-44
	"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x12", // id-ml-dsa-65
}

// others are how keys begin without PKCS#8, after the head of their SEQUENCE.
var others = []string{
	"\x02\x01\x01\x04\x20", // ECPrivateKey (RFC 5915) of P-256: version, length of the scalar
	"\x02\x01\x01\x04\x30", // of P-384
	"\x02\x01\x01\x04\x42", // of P-521
	"\x02\x01\x00\x02\x82", // RSAPrivateKey (RFC 8017): version, modulus of 1024 bits or more
}

// Holds reports whether data holds a private key: of any kind in PEM, or in DER of an
// algorithm that servingcert knows; either as it is, or in base64, or in base64 of it.
func Holds(data []byte) bool { return holds(data, 2) }

func holds(data []byte, layers int) bool {
	if inPEM.Match(data) || inDER(data) {
		return true
	}
	if layers == 0 {
		return false
	}
	for _, run := range inBase64.FindAll(data, -1) {
		for offset := range 4 { // what stands before it may be letters as well
			if holds(decode(run[offset:]), layers-1) {
				return true
			}
		}
	}
	return false
}

// inDER reports whether a key in DER is in data. In PKCS#8 it begins with version 0 and
// its algorithm; in a certificate and in a request no algorithm of a key follows a zero.
func inDER(data []byte) bool {
	const version = "\x02\x01\x00\x30"
	for rest := data; ; {
		_, after, found := bytes.Cut(rest, []byte(version))
		if !found {
			break
		}
		for _, oid := range algorithms {
			if len(after) > 0 && bytes.HasPrefix(after[1:], []byte(oid)) { // the first is a length
				return true
			}
		}
		rest = after
	}
	for _, head := range others {
		if bytes.Contains(data, []byte(head)) {
			return true
		}
	}
	return false
}

// decode returns what base64 stands for, up to what is none.
func decode(run []byte) []byte {
	run = run[:len(run)/4*4]
	out, _ := base64.StdEncoding.DecodeString(standard.Replace(string(run))) // what came before an error is returned
	return out
}
