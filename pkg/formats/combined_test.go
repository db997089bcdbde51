package formats

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestCombinedIsTheKeyAndThenTheCertificates(t *testing.T) {
	for name, c := range map[string]struct{ cert, key, want string }{
		"with a newline":    {"cert\nchain\n", "key\n", "key\ncert\nchain\n"},
		"without a newline": {"cert", "key", "key\ncert"},
		"no key":            {"cert", "", "\ncert"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, string(combined(Pair{Cert: []byte(c.cert), Key: []byte(c.key)})))
		})
	}
}

// The file is checked by what a program reads from it.
func TestHoldsCombined(t *testing.T) {
	pair := newPair(t, pki.ECDSAP256)
	file := combined(pair)
	leaf, root, _ := bytes.Cut(pair.Cert, []byte("-----END CERTIFICATE-----\n"))
	leaf = append(bytes.Clone(leaf), "-----END CERTIFICATE-----\n"...)
	damaged := []byte("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n")
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct {
		file []byte
		want bool
	}{
		"as it was made":                 {file, true},
		"with lines of another system":   {bytes.ReplaceAll(file, []byte("\n"), []byte("\r\n")), true},
		"with empty lines":               {join([]byte("\n\n"), pair.Key, []byte("\n"), leaf, []byte("\n \n"), root, []byte("\n")), true},
		"empty":                          {nil, false},
		"not PEM":                        {[]byte("x"), false},
		"the certificates first":         {join(pair.Cert, pair.Key), false},
		"the chain before the leaf":      {join(pair.Key, root, leaf), false},
		"without the chain":              {join(pair.Key, leaf), false},
		"without the key":                {pair.Cert, false},
		"the key alone":                  {pair.Key, false},
		"with more":                      {join(file, root), false},
		"with a damaged block":           {join(pair.Key, damaged, pair.Cert), false},
		"with a damaged block after it":  {join(file, damaged), false},
		"with text before it":            {join([]byte("x\n"), file), false},
		"with text after it":             {join(file, []byte("x")), false},
		"with another type of the key":   {bytes.ReplaceAll(file, []byte(" PRIVATE KEY"), []byte(" EC PRIVATE KEY")), false},
		"with a header":                  {bytes.Replace(file, []byte("PRIVATE KEY-----\n"), []byte("PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n"), 1), false},
		"with the beginning of a block":  {join([]byte("-----BEGIN CERTIFICATE-----\n"), file), false},
		"of the same pair with one more": {join(pair.Key, pair.Cert, pair.Key), false},
	} {
		assert.Equal(t, c.want, holdsCombined(pair, map[string][]byte{CombinedFile: c.file}), name)
	}
}
