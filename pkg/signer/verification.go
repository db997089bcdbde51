package signer

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/pki"
)

// verification is the cached result of verifying the leaf under one Authority.
type verification struct {
	by     *pki.Authority // nil: it was not verified
	issuer *pki.Issuer    // the issuer of by whose key signed the leaf, or nil
	// chained: the chain after the leaf is that of the issuer.
	chained bool
	// tail: it is followed by certificates of issuer.Ending.
	tail bool
	// signer is the CA whose key signed the leaf, by this or an earlier verification; nil if it is
	// not known. If it is known, the signature need not be verified again.
	signer *x509.Certificate
	raw    []byte // DER of the leaf, until its signer is known
}

// succeeded reports whether the leaf's issuer no longer signs.
func (v *verification) succeeded() bool { return v.issuer != nil && v.issuer != &v.by.Issuer }

// SignedBy returns the issuer of ca whose key signed the leaf, or nil. It ignores expiry: an
// expired certificate still shows that the Secret is managed.
func (f *SecretFacts) SignedBy(ca *pki.Authority) *pki.Issuer { return f.verify(ca).issuer }

// verify verifies the leaf under ca, once. Once its signer is known, the signature is not verified
// again under another ca.
func (f *SecretFacts) verify(ca *pki.Authority) *verification {
	if f.verified == nil {
		return &verification{by: ca}
	}
	last := f.verified.Load()
	if last.by == ca {
		return last
	}
	v := &verification{by: ca, signer: last.signer, raw: last.raw}
	for i := range 1 + len(ca.Older) {
		issuer := &ca.Issuer
		if i > 0 {
			issuer = &ca.Older[i-1]
		}
		if !v.signedBy(issuer.Certificate) {
			continue
		}
		// Two certificates may have the same key: prefer the one that the chain is for.
		if chained, tail := f.Leaf.chainedTo(issuer); chained || v.issuer == nil {
			v.issuer, v.chained, v.tail = issuer, chained, tail
		}
		if v.chained {
			break
		}
	}
	f.verified.Store(v)
	return v
}

// signedBy reports whether the key of the CA signed the leaf, and stores the CA if it did.
func (v *verification) signedBy(ca *x509.Certificate) bool {
	if v.signer != nil {
		return signsAs(ca, v.signer)
	}
	leaf, err := x509.ParseCertificate(v.raw)
	if err != nil || !bytes.Equal(leaf.RawIssuer, ca.RawSubject) || leaf.CheckSignatureFrom(ca) != nil {
		return false
	}
	v.signer, v.raw = ca, nil
	return true
}

// signsAs reports whether ca may sign and has the name and the key of another CA.
func signsAs(ca, other *x509.Certificate) bool {
	maySign := ca.BasicConstraintsValid && ca.IsCA && (ca.KeyUsage == 0 || ca.KeyUsage&x509.KeyUsageCertSign != 0)
	return ca.Equal(other) || maySign && bytes.Equal(ca.RawSubject, other.RawSubject) && bytes.Equal(ca.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
}

// chainedTo reports whether the chain after the leaf is the issuer's, and whether it is followed by
// certificates of issuer.Ending.
func (l LeafFacts) chainedTo(issuer *pki.Issuer) (chained, tail bool) {
	for n := range 1 + len(issuer.Ending) {
		if l.Chain == chainDigest(slices.Concat(issuer.Chain, issuer.Ending[:n])) {
			return true, n > 0
		}
	}
	return false, false
}

// Plausible reports whether a signer of the instance may have issued the Secret, without
// verifying the CA's signature: its label and type, a key and its serving certificate, signed
// by another key, with a name of the Secret's namespace. The label alone is not enough, since
// any user who may write Secrets may set it.
func Plausible(secret *corev1.Secret, instance string) bool {
	f := FactsOf(secret, instance)
	if !f.Labelled || f.Type != corev1.SecretTypeTLS || f.Empty || f.Defect != "" || f.Leaf.Usages != nil {
		return false
	}
	return !f.Leaf.SelfIssued && slices.ContainsFunc(f.Leaf.DNSNames, func(name string) bool {
		_, domain, _ := strings.Cut(name, ".")
		return domain == secret.Namespace+".svc" || strings.HasPrefix(domain, secret.Namespace+".svc.") || strings.HasSuffix(domain, "."+secret.Namespace+".svc")
	})
}
