package signer

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A Secret of another issuer (api.IssuerExternal) is never written. Its certificate is reported in
// condition Ready of its Services, where the rotator finds the leaf that pods should serve.

const (
	// externalGrace is how long a Secret may be without a usable pair before the conditions report
	// it: some issuers write the key and the chain in two writes.
	externalGrace = 5 * time.Second
	// externalInterval is the shortest time between two reads of a Secret. It doubles with each read
	// of a Secret that changes all the time, until maxExternalInterval: each read may change the
	// conditions of many Services.
	externalInterval    = time.Second
	maxExternalInterval = time.Minute
	// maxExternalChain is the most certificates after the leaf from which a chain is built, and the
	// most roots that are tried, of those that the chain names.
	maxExternalChain = 10
)

// External is what is remembered of a Secret that another issuer writes.
type External struct {
	*SecretFacts
	// At is when it was read. Since is when the Secret was first read without a usable pair, without
	// one in between; zero if it has one.
	At, Since time.Time
	// Interval is how long after At it is read again at the earliest.
	Interval time.Duration
	// Usage is why clients do not accept the leaf as a server's, or "".
	Usage string
	// Issuer is the common name of the leaf's issuer.
	Issuer string
	Trust  Trust
	// bundle identifies the CA bundle for which Trust was decided.
	bundle string
}

// Trust is how clients can verify the chain of another issuer.
type Trust string

// The values of Trust, as conditions have them.
const (
	TrustOwnCA   Trust = "clients verify it with " + api.BundleKey + " of the Secret"
	TrustBundle  Trust = "clients verify it with the CA bundle of servingcert"
	TrustUnknown Trust = "it leads to no root in " + api.BundleKey + " of the Secret or in the CA bundle of servingcert"
)

// ExternalOf returns what to remember of a Secret that was read at now. before is what was
// remembered of it, or nil, and bundle the cluster's CA bundle, empty if it is not known.
func ExternalOf(secret *corev1.Secret, instance string, before *External, bundle pki.Bundle, now time.Time) *External {
	e := &External{SecretFacts: factsBesidePair(secret, instance), At: now, Interval: externalInterval, bundle: bundle.Hash()}
	if before != nil && now.Sub(before.At) < 2*before.Interval {
		e.Interval = min(2*before.Interval, maxExternalInterval)
	}
	certs := e.readPair(pki.CertificateBlocks(secret.Data[corev1.TLSCertKey]), pki.KeyBlock(secret.Data[corev1.TLSPrivateKeyKey]), ofAnotherIssuer)
	if e.Empty || e.Defect != "" {
		if e.Since = now; before != nil && !before.Since.IsZero() {
			e.Since = before.Since
		}
		return e
	}
	leaf, chain := certs[0], certs[1:]
	if usages := leaf.ExtKeyUsage; len(usages)+len(leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) && !slices.Contains(usages, x509.ExtKeyUsageAny) {
		e.Usage = "its extended key usages do not include serverAuth"
	}
	e.Issuer = api.Shorten(leaf.Issuer.CommonName, maxIssuer)
	e.Trust = trustOf(leaf, chain[:min(len(chain), maxExternalChain)], secret.Data[api.BundleKey], bundle.Certificates(), now)
	return e
}

// ofAnotherIssuer is what is read as a pair if the signer has not issued it.
var ofAnotherIssuer = pairForm{maxNames: 1000, parseKey: pki.ParseForeignKey}

// maxIssuer is the most characters of an issuer's name in a message.
const maxIssuer = 64

func trustOf(leaf *x509.Certificate, chain []*x509.Certificate, ownCA []byte, bundle []*x509.Certificate, at time.Time) Trust {
	at = pki.WithinValidity(leaf, at) // its expiry is reported by itself
	verifies := func(roots []*x509.Certificate) bool {
		roots = named(roots, append([]*x509.Certificate{leaf}, chain...))
		return pki.VerifyServingAny(leaf, chain, roots[:min(len(roots), maxExternalChain)], at) == nil
	}
	own, _ := pki.ParseCertificates(pki.CertificateBlocks(ownCA)) // what cannot be read verifies nothing
	switch {
	case verifies(own):
		return TrustOwnCA
	case verifies(bundle):
		return TrustBundle
	}
	return TrustUnknown
}

// named returns the roots that the chain names as an issuer, or holds itself.
func named(roots, chain []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(roots), func(root *x509.Certificate) bool {
		return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawIssuer, root.RawSubject) || c.Equal(root)
		})
	})
}

// RenewBy returns when the issuer should have renewed the certificate: a tenth of its lifetime
// before it expires, and at least a day, or a quarter of the lifetime if that is shorter.
func (e *External) RenewBy() time.Time {
	lifetime := e.Leaf.NotAfter.Sub(e.Leaf.NotBefore)
	return e.Leaf.NotAfter.Add(-max(lifetime/10, min(24*time.Hour, lifetime/4)))
}

// OfAnotherIssuer reports whether the Secret has a certificate of another issuer, whatever its key is:
// issuers write keys in other forms, and some in another write. The name of the leaf's issuer tells it
// from a CA of servingcert that is not known any more, as after its loss.
func (f *SecretFacts) OfAnotherIssuer(ca *pki.Authority) bool {
	return ca != nil && f.Leaf.Exists() && !f.Leaf.OwnIssuer && f.SignedBy(ca) == nil
}

// leftToIssuer reports whether the Secret is left as it is, although it has our marks: no Service
// requests it any more, or one of them names another issuer, and that has written it or is about to.
func leftToIssuer(s Situation, o Ownership) bool {
	external := slices.ContainsFunc(s.Requesters, api.IsExternal)
	return (o.Retained || external) && s.Secret.OfAnotherIssuer(s.Authority) || external && s.Secret.Defect != "" && !s.Secret.Empty
}

// isExternal reports whether another issuer writes the Secret that the Services request together.
// While a Secret still has a certificate of this CA, it is retained, and renewed until that issuer
// has written it.
func isExternal(s Situation, wanted api.Wanted) bool {
	return wanted.External && (s.Secret == nil || s.Secret.Defect != "" || s.Secret.OfAnotherIssuer(s.Authority))
}

// decideExternal returns the decision about a Secret that another issuer writes: nothing is
// written, and only conditions change.
func decideExternal(s Situation, d Decision) Decision {
	e, exists := s.External, s.Unmanaged != nil || s.Secret != nil
	switch {
	case !exists:
		d.Problem = Problem{Reason: reasonMissing, Message: fmt.Sprintf("Secret %q does not exist: its issuer has to create it", s.Key.Name)}
		return d
	case e == nil || e.ResourceVersion != s.version() || e.bundle != s.Bundle.Hash():
		if e != nil && s.Now.Before(e.At.Add(e.Interval)) {
			return Decision{Wait: true, NextAt: e.At.Add(e.Interval)}
		}
		return Decision{Ownership: d.Ownership, Wait: true, Action: ReadLive}
	case !e.Since.IsZero() && s.Now.Before(e.Since.Add(externalGrace)):
		return Decision{Wait: true, NextAt: e.Since.Add(externalGrace)}
	}
	d.Problem, d.NextAt = e.problem(s.Now)
	if d.Problem.Reason == "" || e.Since.IsZero() {
		d.Leaf = e.Leaf.Fingerprint
	}
	return d
}

// version returns the resourceVersion of the Secret in the caches.
func (s Situation) version() string {
	if s.Secret != nil {
		return s.Secret.ResourceVersion
	}
	return s.Unmanaged.ResourceVersion
}

// problem returns why pods cannot serve the certificate, for all Services, and when to look again.
func (e *External) problem(now time.Time) (Problem, time.Time) {
	switch {
	case e.Empty:
		return e.broken(reasonEmpty, "it holds neither a certificate nor a key"), time.Time{}
	case e.Defect != "":
		return e.broken(e.Defect, e.Detail), time.Time{}
	case e.Usage != "":
		return e.broken(reasonWrongUsage, e.Usage), time.Time{}
	case now.Before(e.Leaf.NotBefore):
		return e.broken(reasonNotYetValid, "its certificate is not valid before "+e.Leaf.NotBefore.Format(time.RFC3339)), e.Leaf.NotBefore
	case !now.Before(e.Leaf.NotAfter):
		return e.broken(reasonExpired, "its certificate expired at "+e.Leaf.NotAfter.Format(time.RFC3339)), time.Time{}
	case now.Before(e.RenewBy()):
		return Problem{}, e.RenewBy()
	}
	return Problem{}, e.Leaf.NotAfter
}

func (e *External) broken(reason Reason, why string) Problem {
	return Problem{Reason: reason, Message: fmt.Sprintf("Secret %q: %s: its issuer, which is not servingcert, has to correct it", e.Name, why)}
}

// externalCondition returns the Ready condition of a Service whose Secret another issuer writes.
func (s applied) externalCondition(svc *corev1.Service) *state.Condition {
	kept := s.kept(svc)
	said := state.Ready{Secret: s.Key.Name, Leaf: s.leaf}.WithKept(kept)
	if s.problem.Reason != "" {
		return condition(false, s.problem.Reason, s.problem.Message+keptText(kept), said)
	}
	e := s.External
	// X.509 names may have control characters.
	text := api.Escape(fmt.Sprintf("of another issuer (%q), for %s, until %s; %s", e.Issuer, describeNames(e.Leaf.DNSNames, e.Leaf.IPs), e.Leaf.NotAfter.Format(time.RFC3339), e.Trust))
	if missing := e.uncovered(svc, s.Limits); missing != "" {
		return condition(false, reasonNamesMissing, s.ofSecret(text+"; "+missing, kept, s.leaf), said)
	}
	if !s.Now.Before(e.RenewBy()) {
		return condition(true, reasonOverdue, s.ofSecret(text+"; its issuer should have renewed it by "+e.RenewBy().Format(time.RFC3339), kept, s.leaf), said)
	}
	return condition(true, reasonExternal, s.ofSecret(text, kept, s.leaf), said)
}

// uncovered returns which names that clients use are not in the certificate, or "". Of a Service's
// own names one is enough, since an issuer need not know the cluster domain.
func (e *External) uncovered(svc *corev1.Service, limits api.Limits) string {
	leaf := x509.Certificate{DNSNames: e.Leaf.DNSNames}
	covers := func(name string) bool {
		return slices.Contains(e.Leaf.DNSNames, name) || leaf.VerifyHostname(name) == nil
	}
	listed, err := api.ExtraNames(svc)
	if err != nil {
		return ""
	}
	if len(listed) > 0 {
		if missing := slices.DeleteFunc(listed, covers); len(missing) > 0 {
			return "it is not for " + describeNames(missing, nil) + ", which annotation " + api.AnnotationExtraDNSNames + " lists"
		}
		return ""
	}
	own := append(api.ServiceDomains(svc, limits.ClusterDomain), svc.Name+"."+svc.Namespace, svc.Name)
	if slices.ContainsFunc(own, covers) {
		return ""
	}
	return fmt.Sprintf("it is for none of the Service's names, such as %s: have its issuer add one, or list the names that clients use in annotation %s", own[0], api.AnnotationExtraDNSNames)
}
