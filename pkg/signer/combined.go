package signer

import (
	"bytes"
	"crypto/sha256"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Some programs read key and certificates from one file. It holds the pair a second
// time, so it follows from the pair and from nothing else.

// combined returns the pair as one file, what is under api.CombinedKey: the key, and
// then the certificates. cert-manager's output format CombinedPEM has the same order.
func combined(certPEM, keyPEM []byte) []byte {
	return bytes.Join(combinedParts(certPEM, keyPEM), nil)
}

// combinedDigest returns the digest of what combined returns, without a copy of the key.
func combinedDigest(certPEM, keyPEM []byte) (digest [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range combinedParts(certPEM, keyPEM) {
		h.Write(part)
	}
	h.Sum(digest[:0])
	return digest
}

func combinedParts(certPEM, keyPEM []byte) [][]byte {
	var newline []byte // a PEM block has to begin on a line of its own
	if !bytes.HasSuffix(keyPEM, []byte("\n")) {
		newline = []byte("\n")
	}
	return [][]byte{keyPEM, newline, certPEM}
}

// NeedsPair reports whether the content can be written over the Secret only after
// WithPair: api.CombinedKey has to change, and the pair stays. Its bytes are in the
// Secret and not in the facts.
func (c Content) NeedsPair(f *SecretFacts) bool {
	return c.Combined && c.issued == nil && (!f.holdsCombined() || f.Other[api.CombinedKey] != f.Combined)
}

// WithPair returns the content with what follows from the pair in the Secret. Patch
// fails on any other version of the Secret than that of its facts, so the result is
// written beside this pair or not at all.
func (c Content) WithPair(secret *corev1.Secret) Content {
	data := map[string][]byte{api.CombinedKey: combined(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])}
	for key, value := range c.Data {
		data[key] = value
	}
	c.Data = data
	return c
}

// holdsCombined reports whether there is anything under api.CombinedKey.
func (f *SecretFacts) holdsCombined() bool {
	_, there := f.Other[api.CombinedKey]
	return there
}
