package signer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// good is the result of a check that passes, and does not depend on time.
func good() (string, time.Time) { return "", time.Time{} }

func doesNotExist(c candidate) (string, time.Time) {
	if c.Secret != nil {
		return good()
	}
	return "the Secret does not exist", time.Time{}
}

// wasDeleted distinguishes a Secret that was deleted from one that never existed.
func wasDeleted(c candidate) (string, time.Time) {
	if !c.ExistedBefore {
		return good()
	}
	return doesNotExist(c)
}

// isOfServiceCA comes before all that is wrong with such a Secret.
func isOfServiceCA(c candidate) (string, time.Time) {
	if !c.takesOver() {
		return good()
	}
	return "issued by OpenShift's service-ca", c.spread()
}

func isEmpty(c candidate) (string, time.Time) {
	if !c.Secret.Empty {
		return good()
	}
	return "the Secret holds neither a certificate nor a key", time.Time{}
}

func hasDefect(reason Reason) check {
	return func(c candidate) (string, time.Time) {
		if c.Secret.Defect != reason {
			return good()
		}
		return cmp.Or(c.Secret.Detail, string(reason)), time.Time{}
	}
}

func isSignedByOther(c candidate) (string, time.Time) {
	if c.by.issuer != nil {
		return good()
	}
	return "the certificate was not signed by this CA", time.Time{}
}

func hasWrongUsage(c candidate) (string, time.Time) {
	if c.Secret.Leaf.Usages == nil {
		return good()
	}
	return "not a serving certificate: " + c.Secret.Leaf.Usages.Error(), time.Time{}
}

func hasOtherChain(c candidate) (string, time.Time) {
	if c.by.chained {
		return good()
	}
	return fmt.Sprintf("the chain after the leaf is not that of this CA, which has %d certificates", len(c.by.issuer.Chain)), time.Time{}
}

// isNotYetValid replaces a certificate that was issued while the clock was ahead. While the clock
// is behind, nothing is signed, so this check does not run.
func isNotYetValid(c candidate) (string, time.Time) {
	if !c.Now.Before(c.Secret.Leaf.NotBefore) {
		return good()
	}
	return "not valid before " + c.Secret.Leaf.NotBefore.Format(time.RFC3339), time.Time{}
}

func isExpired(c candidate) (string, time.Time) {
	if c.Now.Before(c.Secret.Leaf.NotAfter) {
		return good() // isDue returns an earlier time
	}
	return "expired at " + c.Secret.Leaf.NotAfter.Format(time.RFC3339), time.Time{}
}

// isDue does not replace a certificate that ends no earlier than the CA: a new one would end at
// the same time, and could be due as soon as it is issued.
func isDue(c candidate) (string, time.Time) {
	due := c.Secret.Leaf.RenewAt
	switch {
	case c.Now.Before(due):
		return "", due
	case !c.Secret.Leaf.NotAfter.Before(c.Authority.Certificate.NotAfter):
		return good()
	}
	return "due for renewal since " + due.Format(time.RFC3339), time.Time{}
}

// isSucceeded replaces a certificate of an earlier issuer. Each has its own time in the window, to
// avoid a burst.
func isSucceeded(c candidate) (string, time.Time) {
	if !c.by.succeeded() {
		return good()
	}
	if at := c.Authority.Reissue.AtOf(c.Secret.Leaf.Sum); c.Now.Before(at) {
		return "", at
	}
	return fmt.Sprintf("signed by %q, which %q has succeeded", nameOfCA(c.by.issuer), nameOfCA(&c.Authority.Issuer)), time.Time{}
}

// isShortened replaces a certificate whose chain ends in certificates that are about to expire:
// GnuTLS rejects a chain with an expired one.
func isShortened(c candidate) (string, time.Time) {
	if !c.by.tail {
		return good()
	}
	if at := c.by.issuer.Shorten.AtOf(c.Secret.Leaf.Sum); c.Now.Before(at) {
		return "", at
	}
	return "a certificate in the chain after the leaf is about to expire", time.Time{}
}

// nameOfCA returns the name of a CA for messages and labels.
func nameOfCA(issuer *pki.Issuer) string { return issuer.Certificate.Subject.CommonName }

// hasOtherNamesByCA finds names that follow from the CA: no Service has asked for others.
func hasOtherNamesByCA(c candidate) (string, time.Time) {
	message, _ := hasOtherNames(c)
	if message == "" || !c.sameRequest() {
		return good()
	}
	return message, c.spread()
}

// sameRequest reports whether the conditions of the Services record that the certificate was
// issued for their current requests, so that only the CA can have changed its names.
func (c candidate) sameRequest() bool {
	return !slices.ContainsFunc(c.Participants, func(svc *corev1.Service) bool {
		said := state.ReadyOf(svc)
		return said.Secret != c.Key.Name || said.Request != c.Asked.Hash() || said.Leaf != c.Secret.Leaf.Fingerprint
	})
}

func hasOtherNames(c candidate) (string, time.Time) {
	leaf := c.Secret.Leaf
	if slices.Equal(leaf.DNSNames, c.Wanted.DNSNames) && slices.Equal(leaf.IPs, c.Wanted.IPs) {
		return good()
	}
	return fmt.Sprintf("the certificate is for %s, must be for %s", describeNames(leaf.DNSNames, leaf.IPs), describeNames(c.Wanted.DNSNames, c.Wanted.IPs)), time.Time{}
}

func hasOtherAlgorithm(c candidate) (string, time.Time) {
	have := c.Secret.Leaf.KeyAlgorithm
	if have == c.Wanted.Params.KeyAlgorithm {
		return good()
	}
	if have == "" {
		have = "of an unknown type"
	}
	return fmt.Sprintf("the key is %s, must be %s", have, c.Wanted.Params.KeyAlgorithm), time.Time{}
}

// hasOtherDuration requires the exact lifetime from a local CA. A remote or an earlier CA may give
// a shorter lifetime than requested, and backdate; only a longer one is replaced.
func hasOtherDuration(c candidate) (string, time.Time) {
	leaf, issuer := c.Secret.Leaf, c.by.issuer.Certificate
	if c.Authority.Key == nil || c.by.succeeded() {
		if !leaf.NotAfter.After(issue.EndOf(leaf.NotBefore.Add(issue.MaxBackdate), c.Wanted.Params.Duration, issuer)) {
			return good()
		}
	} else if leaf.NotAfter.Equal(issue.EndOf(leaf.NotBefore, c.Wanted.Params.Duration, issuer)) {
		return good()
	}
	return fmt.Sprintf("the certificate's lifetime is %s, must be %s", leaf.NotAfter.Sub(leaf.NotBefore), c.Wanted.Params.Duration), time.Time{}
}

// isRequested ignores a renew-after in the future: every new certificate would be older than that
// time. Certificates of a remote CA do not have their time of issue, so the recorded time is
// considered too.
func isRequested(c candidate) (string, time.Time) {
	at := c.Wanted.RenewAfter
	switch {
	case at.After(c.Now):
		return "", at
	case at.IsZero() || !c.Secret.Leaf.IssuedAt.Before(at):
		return good()
	case c.Authority.Key == nil && !c.Secret.renewedAfter().Before(at):
		return good()
	}
	return "renewal was requested for certificates issued before " + at.Format(time.RFC3339), time.Time{}
}

// holdsForeignData finds data under other keys that cannot be removed in place.
func holdsForeignData(c candidate) (string, time.Time) {
	if !c.Secret.replacedWhole() {
		return good()
	}
	keys := c.content.changedKeys(c.Secret)
	switch {
	case len(keys) == 0:
		return good()
	case len(c.Secret.Other) > maxOther:
		return fmt.Sprintf("the Secret has data under more than %d other keys", maxOther), time.Time{}
	}
	return "the Secret is immutable and data under other keys has to change: " + quoted(keys, len(keys)), time.Time{}
}
