package formats

import (
	"bytes"
	"encoding/pem"
)

// What of format Combined is a contract.
const (
	CombinedFile       = "tls-combined.pem"
	CombinedAnnotation = "combined-pem"
)

// Combined is the pair as one file, which some programs read: the key, and then the certificates.
// cert-manager's output format CombinedPEM has the same order.
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
	var newline []byte // a PEM block has to begin on a line of its own
	if !bytes.HasSuffix(pair.Key, []byte("\n")) {
		newline = []byte("\n")
	}
	return bytes.Join([][]byte{pair.Key, newline, pair.Cert}, nil)
}

// holdsCombined reports whether the file has the blocks of the pair in their order, and nothing
// else but white space and what is between the blocks of the pair itself.
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

// onlyBlock returns the PEM block with which the text begins, but for white space, and the rest.
// Unlike pem.Decode it does not skip what is damaged: a program may refuse the file for it.
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
