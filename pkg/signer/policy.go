package signer

import (
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Reason says in one word why a certificate is issued, or why it is not. It is
// the value of a condition's reason, of an event's and of a metric's label.
type Reason string

// Why a certificate is issued.
const (
	ReasonFirst        Reason = "FirstIssue"
	ReasonMissing      Reason = "SecretMissing"
	ReasonEmpty        Reason = "SecretEmpty"
	ReasonKeyMissing   Reason = "KeyMissing"
	ReasonGarbage      Reason = "Garbage"
	ReasonMismatch     Reason = "KeyMismatch"
	ReasonOtherCA      Reason = "SignedByOtherCA"
	ReasonWrongUsage   Reason = "WrongUsage"
	ReasonChainChanged Reason = "ChainChanged"
	ReasonNames        Reason = "NamesChanged"
	ReasonAlgorithm    Reason = "KeyAlgorithmChanged"
	ReasonDuration     Reason = "DurationChanged"
	ReasonRequested    Reason = "RenewRequested"
	ReasonDue          Reason = "RenewalDue"
	ReasonExpired      Reason = "Expired"
	ReasonSucceeded    Reason = "CASucceeded"
)

// candidate is a Secret that exists, held against what is wanted.
type candidate struct {
	now    time.Time
	secret *SecretFacts
	wanted api.Wanted
	ca     *pki.Authority
	by     *verification // who signed it, as far as ca knows
}

// check says why the certificate must be replaced, in one word and in a
// sentence, or returns an empty Reason.
type check func(candidate) (Reason, string)

// brokenChecks find a Secret that no server can use, or no client accept. They
// hold for every Secret of ours, asked for or retained.
func brokenChecks() []check {
	return []check{
		isEmpty,
		isDefect,
		isSignedByOther,
		hasWrongUsage,
		hasOtherChain,
		isExpired,
		isDue,
		isSucceeded,
		isShortened,
	}
}

// changedChecks find a certificate that is other than what is asked for now.
func changedChecks() []check {
	return []check{
		hasOtherNames,
		hasOtherAlgorithm,
		hasOtherDuration,
		isRequested,
	}
}

// firstReason returns the answer of the first check that has one.
func firstReason(c candidate, checks ...[]check) (Reason, string) {
	for _, check := range slices.Concat(checks...) {
		if reason, message := check(c); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

func isEmpty(c candidate) (Reason, string) {
	if !c.secret.Empty {
		return "", ""
	}
	return ReasonEmpty, "the Secret holds neither certificate nor key"
}

func isDefect(c candidate) (Reason, string) { return c.secret.Defect, c.secret.Detail }

func isSignedByOther(c candidate) (Reason, string) {
	if c.by.issuer != nil {
		return "", ""
	}
	return ReasonOtherCA, "the certificate's signature is not by this CA"
}

func hasWrongUsage(c candidate) (Reason, string) {
	if c.secret.Leaf.Usages == nil {
		return "", ""
	}
	return ReasonWrongUsage, "the certificate is not for serving: " + c.secret.Leaf.Usages.Error()
}

func hasOtherChain(c candidate) (Reason, string) {
	if c.by.chained {
		return "", ""
	}
	return ReasonChainChanged, fmt.Sprintf("the certificates after the leaf are not the %d that this CA has served with it", len(c.by.issuer.Chain))
}

func isExpired(c candidate) (Reason, string) {
	if c.now.Before(c.secret.Leaf.NotAfter) {
		return "", ""
	}
	return ReasonExpired, "expired at " + c.secret.Leaf.NotAfter.Format(time.RFC3339)
}

// isDue leaves a certificate alone that ends no earlier than the CA that signs
// now: another would end then too, and close to that end be due the moment it is
// issued.
func isDue(c candidate) (Reason, string) {
	if c.now.Before(c.secret.Leaf.RenewAt) || !c.secret.Leaf.NotAfter.Before(c.ca.Certificate.NotAfter) {
		return "", ""
	}
	return ReasonDue, "due for renewal since " + c.secret.Leaf.RenewAt.Format(time.RFC3339)
}

// isSucceeded replaces what an earlier issuer signed, each certificate at its own
// time: all of them at once would be a burst for everyone who reads them.
func isSucceeded(c candidate) (Reason, string) {
	if !c.by.succeeded() || c.now.Before(c.ca.Reissue.At(c.secret.Leaf.Raw)) {
		return "", ""
	}
	return ReasonSucceeded, fmt.Sprintf("signed by %q, which %q has succeeded", NameOfCA(c.by.issuer), NameOfCA(&c.ca.Issuer))
}

// isShortened replaces a certificate that is served with others that are about to
// expire: GnuTLS refuses what ends with one that has.
func isShortened(c candidate) (Reason, string) {
	if !c.by.tail || c.now.Before(c.by.issuer.Shorten.At(c.secret.Leaf.Raw)) {
		return "", ""
	}
	return ReasonChainChanged, "a certificate that is served after the leaf is about to expire"
}

// NameOfCA returns what a CA is called in words and labels.
func NameOfCA(issuer *pki.Issuer) string { return issuer.Certificate.Subject.CommonName }

func hasOtherNames(c candidate) (Reason, string) {
	leaf := c.secret.Leaf
	if slices.Equal(leaf.DNSNames, c.wanted.DNSNames) && slices.Equal(leaf.IPs, c.wanted.IPs) {
		return "", ""
	}
	return ReasonNames, fmt.Sprintf("the certificate is for %s, wanted is %s", describeNames(leaf.DNSNames, leaf.IPs), describeNames(c.wanted.DNSNames, c.wanted.IPs))
}

func hasOtherAlgorithm(c candidate) (Reason, string) {
	if c.secret.Leaf.KeyAlgorithm == c.wanted.Params.KeyAlgorithm {
		return "", ""
	}
	return ReasonAlgorithm, fmt.Sprintf("the key is %s, wanted is %s", orUnknown(c.secret.Leaf.KeyAlgorithm), c.wanted.Params.KeyAlgorithm)
}

// hasOtherDuration holds the CA here to the second. One elsewhere may give a
// shorter lifetime than it was asked for, and date back: what it, or a CA of
// before, has signed is only not to live longer.
func hasOtherDuration(c candidate) (Reason, string) {
	leaf, issuer := c.secret.Leaf, c.by.issuer.Certificate
	if c.ca.Key == nil || c.by.succeeded() {
		if !leaf.NotAfter.After(endOf(leaf.NotBefore.Add(maxBackdate), c.wanted.Params.Duration, issuer)) {
			return "", ""
		}
	} else if leaf.NotAfter.Equal(endOf(leaf.NotBefore, c.wanted.Params.Duration, issuer)) {
		return "", ""
	}
	return ReasonDuration, fmt.Sprintf("the certificate lives for %s, wanted is %s", leaf.NotAfter.Sub(leaf.NotBefore), c.wanted.Params.Duration)
}

// isRequested looks at a renew-after only once that time has come: before it,
// a new certificate would be older than the time too, and the next as well. What
// a CA elsewhere issued does not tell when; of that the record counts too.
func isRequested(c candidate) (Reason, string) {
	at := c.wanted.RenewAfter
	if at.IsZero() || at.After(c.now) || !c.secret.Leaf.IssuedAt.Before(at) {
		return "", ""
	}
	if c.ca.Key == nil && !c.secret.RenewedAfter.Before(at) {
		return "", ""
	}
	return ReasonRequested, "renewal of what was issued before " + at.Format(time.RFC3339) + " was requested"
}

func orUnknown(a pki.KeyAlgorithm) string {
	if a == "" {
		return "of another kind"
	}
	return string(a)
}
