package formats

import (
	"bytes"
	"encoding/pem"
)

// The names of format Combined, which are a contract.
const (
	CombinedFile       = "tls-combined.pem"
	CombinedAnnotation = "combined-pem"
)

// Combined is the pair in one file, which some programs read: the key, then the certificates, in
// the order of cert-manager's output format CombinedPEM.
var Combined = Format{
	Name:             "combined",
	Word:             "combined.pem",
	Annotation:       CombinedAnnotation,
	Variable:         "TLS_COMBINED_FILE",
	Files:            []string{CombinedFile},
	PrivateKey:       true,
	CredentialBundle: true,
	Make:             makeCombined,
	Holds:            holdsCombined,
}

func makeCombined(pair Pair) (map[string][]byte, error) {
	return map[string][]byte{CombinedFile: combined(pair)}, nil
}

func combined(pair Pair) []byte {
	var newline []byte // a PEM block begins on its own line
	if !bytes.HasSuffix(pair.Key, []byte("\n")) {
		newline = []byte("\n")
	}
	return bytes.Join([][]byte{pair.Key, newline, pair.Cert}, nil)
}

// holdsCombined reports whether the file has the blocks of the pair in order, and otherwise only
// white space and what is between the blocks of the pair itself.
func holdsCombined(pair Pair, data map[string][]byte) bool {
	rest := data[CombinedFile]
	if bytes.Equal(rest, combined(pair)) {
		return true
	}
	for _, part := range [][]byte{pair.Key, pair.Cert} {
		for {
			want, others := pem.Decode(part)
			if want == nil {
				break
			}
			var have *pem.Block
			if have, rest = onlyBlock(rest); have == nil || have.Type != want.Type || len(have.Headers) > 0 || !bytes.Equal(have.Bytes, want.Bytes) {
				return false
			}
			part = others
		}
	}
	return len(bytes.TrimSpace(rest)) == 0
}

// onlyBlock returns the PEM block at the start of the text, after white space, and the rest.
// Unlike pem.Decode it does not skip a damaged block, for which a program may refuse the file.
func onlyBlock(text []byte) (*pem.Block, []byte) {
	const begin = "-----BEGIN "
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte(begin)) {
		return nil, nil
	}
	block, rest := pem.Decode(text)
	if bytes.Count(text[:len(text)-len(rest)], []byte(begin)) > 1 {
		return nil, nil
	}
	return block, rest
}
