package signer

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/pki"
)

// verification remembers what follows from the leaf under one Authority.
type verification struct {
	by     *pki.Authority // nil: it was not verified
	issuer *pki.Issuer    // one of by, whose key signed the leaf; nil if none's did
	// chained: what is served after the leaf is what the issuer's clients need.
	chained bool
	// tail: and some of what is ending.
	tail bool
	// signer is the CA whose key signed the leaf, known to by or to an Authority before;
	// nil if that was never found out. Of a leaf whose signer is known nothing has to be
	// verified any more.
	signer *x509.Certificate
	raw    []byte // DER of the leaf, as long as its signer is not known
}

// succeeded reports whether the leaf's issuer is one that no longer signs.
func (v *verification) succeeded() bool { return v.issuer != nil && v.issuer != &v.by.Issuer }

// SignedBy returns the issuer that ca knows whose key signed the leaf, or nil.
// Expired leaves and issuers count: whose a Secret is does not end.
func (f *SecretFacts) SignedBy(ca *pki.Authority) *pki.Issuer { return f.verify(ca).issuer }

// verify checks the leaf under ca, once. Its signature is checked until it is known who
// made it: most that changes is not the issuer.
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
		// Of two certificates of one key, the one that the chain is for.
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

// signedBy reports whether the key of the CA signed the leaf, and remembers it if it did.
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

// chainedTo reports whether what is served after the leaf is the issuer's chain,
// and whether it is followed by some of what is ending.
func (l LeafFacts) chainedTo(issuer *pki.Issuer) (chained, tail bool) {
	for n := range 1 + len(issuer.Ending) {
		if l.Chain == chainDigest(slices.Concat(issuer.Chain, issuer.Ending[:n])) {
			return true, n > 0
		}
	}
	return false, false
}

// Plausible reports whether the Secret looks like one that a signer of the instance has
// issued, as far as that can be told without the CA: its label and type, a key and its
// serving certificate, signed by another key, with a name of the Secret's namespace. The
// label alone shows nothing: whoever may write Secrets may write it.
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
