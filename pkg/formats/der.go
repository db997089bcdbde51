package formats

import (
	"bytes"
	"encoding/pem"
	"errors"
)

// The names of format DER, which are a contract.
const (
	DERCertFile = "cert.der"
	// DERKeyFile is also a key of cert-manager's output format DER.
	DERKeyFile = "key.der"
)

// DER is the certificate alone, and the key in PKCS #8, for programs that do not read PEM.
var DER = Format{
	Name:       "der",
	Word:       "der",
	Files:      []string{DERCertFile, DERKeyFile},
	PrivateKey: true,
	Make:       makeDER,
	Holds:      holdsDER,
}

func makeDER(pair Pair) (map[string][]byte, error) {
	cert, _ := pem.Decode(pair.Cert)
	key, _ := pem.Decode(pair.Key)
	if cert == nil || key == nil {
		return nil, errors.New("certificate or key is not PEM")
	}
	return map[string][]byte{DERCertFile: cert.Bytes, DERKeyFile: key.Bytes}, nil
}

func holdsDER(pair Pair, data map[string][]byte) bool {
	want, err := makeDER(pair)
	return err == nil && bytes.Equal(want[DERCertFile], data[DERCertFile]) && bytes.Equal(want[DERKeyFile], data[DERKeyFile])
}
