package signer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A Secret of another issuer (api.IssuerExternal) is never written. Its certificate is reported in
// condition Ready of its Services, where the rotator finds the leaf that pods should serve.

const (
	// externalGrace is how long a Secret that was there may be gone or without a usable pair before the
	// conditions report it: some issuers write the key and the chain in two writes, or replace the Secret.
	externalGrace = 5 * time.Second
	// externalInterval is the shortest time between two reads of a Secret. It doubles with each read
	// of a Secret that changes all the time, until maxExternalInterval: each read may change the
	// conditions of many Services.
	externalInterval    = time.Second
	maxExternalInterval = time.Minute
)

// External is what is remembered of a Secret that another issuer writes.
type External struct {
	*SecretFacts
	// At is when it was read. Since is when it was first seen without a usable pair, or missing, without
	// a pair in between; zero if it has one.
	At, Since time.Time
	// Interval is how long after At it is read again at the earliest.
	Interval time.Duration
	// Usage is why clients do not accept the leaf as a server's, or "".
	Usage string
	// Issuer is the common name of the leaf's issuer.
	Issuer string
	// Outdated are the files of formats that hold another certificate (formats.Outdated).
	Outdated []string
	verdict
	// bundle identifies the CA bundle for which Trust was decided.
	bundle string
}

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
	e.Usage = pki.UsageDefect(leaf)
	e.Issuer = api.Shorten(leaf.Issuer.CommonName, maxIssuer)
	e.Outdated = formats.Outdated(secret.Data, pairIn(secret, e.password()), e.Annotations[api.AnnotationKeystoreDigest])
	e.verdict = trustOf(leaf, chain[:min(len(chain), maxExternalChain)], secret.Data[api.BundleKey], bundle.Certificates(), now)
	return e
}

// Absent returns what to remember while the Secret does not exist: when it was read last, and since
// when it is missing. e is what was remembered of it, or nil.
func (e *External) Absent(key types.NamespacedName, now time.Time) *External {
	if e.isAbsent() {
		return e
	}
	a := &External{SecretFacts: &SecretFacts{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, Since: now, Interval: externalInterval}
	if e != nil {
		a.At, a.Interval = e.At, e.Interval
	}
	return a
}

func (e *External) isAbsent() bool { return e != nil && e.ResourceVersion == "" }

// ofAnotherIssuer is what is read as a pair if the signer has not issued it.
var ofAnotherIssuer = pairForm{maxNames: 1000, parseKey: pki.ParseForeignKey}

// maxIssuer is the most characters of an issuer's name in a message.
const maxIssuer = 64

// RenewBy returns when the issuer should have renewed the certificate or its chain (pki.RenewBy).
func (e *External) RenewBy() time.Time {
	return pki.RenewBy(e.Leaf.NotAfter.Sub(e.Leaf.NotBefore), e.NotAfter)
}

// WriteBy returns when the issuer should have written another certificate: RenewBy, or since when the
// Secret has none that pods can serve to clients now, or condition Ready of one of the Services that name it
// is False because of the Secret.
func (e *External) WriteBy(now time.Time, services ...*corev1.Service) time.Time {
	by := e.RenewBy()
	switch {
	case !e.Since.IsZero():
		by = e.Since
	case e.Usage != "", now.Before(e.Leaf.NotBefore), now.Before(e.NotBefore):
		by = e.At
	}
	for _, svc := range services {
		ready := api.Condition(svc, api.ConditionReady)
		if ready != nil && ready.Status == metav1.ConditionFalse && state.ReadyOf(svc).External {
			by = limit.Earliest(by, ready.LastTransitionTime.Time)
		}
	}
	return by
}

// IssuedHere reports whether the Secret has the certificate that the signer wrote last. Which CA signed
// it does not tell: another issuer may have the same CA.
func (f *SecretFacts) IssuedHere() bool {
	return f.Annotations[api.AnnotationIssuedLeaf] == hex.EncodeToString(f.Leaf.Sum[:])
}

// OfAnotherIssuer reports whether another issuer has replaced the signer's certificate, whatever the
// key is: issuers write keys in other forms, and some in another write.
func (f *SecretFacts) OfAnotherIssuer() bool {
	return f.Leaf.Sum != [sha256.Size]byte{} && f.Annotations[api.AnnotationIssuedLeaf] != "" && !f.IssuedHere()
}

// leftToIssuer reports whether the Secret is left as it is, although it has our marks: one of the
// Services names another issuer, and that has written it or is about to, or another issuer has
// written it and no Service requests it any more, or that issuer is cert-manager, which would write
// it again after each repair. Annotations alone do not have a certificate of this CA left.
func leftToIssuer(s Situation, o Ownership) bool {
	if slices.ContainsFunc(s.Requesters, api.IsExternal) {
		return !s.Secret.Empty && s.Secret.isExternal()
	}
	return s.Secret.OfAnotherIssuer() && (o.Retained || s.Secret.Annotations[api.AnnotationCertificateName] != "" && s.Secret.SignedBy(s.Authority) == nil)
}

// toRelease reports whether another issuer has replaced the signer's certificate in a Secret that
// still has the signer's marks. By its owner references, Kubernetes would delete it with the Service.
// Only a Secret whose Services name another issuer is released: it cannot be repaired afterwards.
func (f *SecretFacts) toRelease() bool {
	return f.OfAnotherIssuer() && f.Type == corev1.SecretTypeTLS && f.Labelled
}

// Release is the merge patch that removes the signer's marks from a Secret, and nothing else.
func (f *SecretFacts) Release() map[string]any {
	return map[string]any{"metadata": map[string]any{
		"uid":             f.UID,
		"resourceVersion": f.ResourceVersion,
		"labels":          map[string]any{api.LabelManagedBy: nil},
		"annotations":     map[string]any{api.AnnotationIssuedLeaf: nil, api.AnnotationRenewedAfter: nil},
		"ownerReferences": ownerReferences(f, nil),
	}}
}

// isReleased reports whether the Secret of another issuer was there, and no cache has it: once the signer has removed
// its label, one cache may have lost it before the other has it. A certificate that is issued now could not be written.
func (s Situation) isReleased() bool {
	return s.Secret == nil && s.Unmanaged == nil && s.External != nil && !s.External.isAbsent()
}

// writer returns who writes the Secret, if its annotations tell, or "".
func writer(annotations map[string]string) string {
	name := annotations[api.AnnotationCertificateName]
	if name == "" {
		return ""
	}
	return fmt.Sprintf("by annotation %s, Certificate %q writes it, and again if only the Secret is deleted", api.AnnotationCertificateName, name)
}

// isExternal reports whether another issuer writes the Secret, if its Services name one. While it still
// has the signer's certificate, it is retained, and renewed until that issuer has written it.
func (f *SecretFacts) isExternal() bool { return f == nil || f.Defect != "" || !f.IssuedHere() }

// decideExternal returns the decision about a Secret that another issuer writes: nothing is
// written, and only conditions change.
func decideExternal(s Situation, d Decision) Decision {
	e, exists := s.External, s.Unmanaged != nil || s.Secret != nil
	switch {
	case !exists && e != nil && (!e.isAbsent() || s.Now.Before(e.Since.Add(externalGrace))):
		return Decision{Ownership: d.Ownership, Wait: true, NextAt: e.Absent(s.Key, s.Now).Since.Add(externalGrace)}
	case !exists:
		d.Problem = Problem{Reason: reasonMissing, Message: fmt.Sprintf("Secret %q does not exist: its issuer has to create it", s.Key.Name)}
		return d
	case e.outdated(s):
		if e != nil && s.Now.Before(e.At.Add(e.Interval)) {
			return Decision{Wait: true, NextAt: e.At.Add(e.Interval)}
		}
		return Decision{Ownership: d.Ownership, Wait: true, Action: ReadLive}
	case !e.Since.IsZero() && s.Now.Before(e.Since.Add(externalGrace)):
		return Decision{Wait: true, NextAt: e.Since.Add(externalGrace)}
	}
	if e.toRelease() {
		d.Release = e.SecretFacts
	}
	d.Problem, d.NextAt = e.problem(s.Now)
	if d.Problem.Reason == "" || e.Since.IsZero() {
		d.Leaf = e.Leaf.Fingerprint
	}
	return d
}

// outdated reports whether the Secret must be read: it has changed since, or the bundle has and may verify
// it, or a certificate of the chain has expired, and another chain may be valid, or one has become valid that
// may verify it.
func (e *External) outdated(s Situation) bool {
	if e == nil || e.ResourceVersion != s.version() || e.Trust != TrustOwnCA && e.bundle != s.Bundle.Hash() {
		return true
	}
	since := func(at time.Time) bool { return e.At.Before(at) && !s.Now.Before(at) }
	return since(e.NotAfter) && e.NotAfter.Before(e.Leaf.NotAfter) || since(e.NotBefore) && e.Trust == TrustUnknown
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
	case !now.Before(e.NotAfter) && e.RootEnds:
		return e.broken(reasonExpired, "the root in "+api.BundleKey+" that verifies it expired at "+e.NotAfter.Format(time.RFC3339)), time.Time{}
	case !now.Before(e.NotAfter):
		return e.broken(reasonExpired, "a certificate of its chain expired at "+e.NotAfter.Format(time.RFC3339)), time.Time{}
	case now.Before(e.NotBefore) && e.RootBegins:
		return e.broken(reasonNotYetValid, "the root in "+api.BundleKey+" that verifies it is not valid before "+e.NotBefore.Format(time.RFC3339)), e.NotBefore
	case now.Before(e.NotBefore):
		return e.broken(reasonNotYetValid, "a certificate of its chain is not valid before "+e.NotBefore.Format(time.RFC3339)), e.NotBefore
	case now.Before(e.RenewBy()):
		return Problem{}, e.RenewBy()
	}
	return Problem{}, e.NotAfter
}

func (e *External) broken(reason Reason, why string) Problem {
	return Problem{Reason: reason, Message: fmt.Sprintf("Secret %q: %s: its issuer, which is not servingcert, has to correct it", e.Name, why)}
}
