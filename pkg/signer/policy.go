package signer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// A cause is why a certificate is issued, with all that follows from it. Decision.issue takes one,
// so that no Reason issues anything without its row in causes.
type cause struct {
	reason Reason
	check  check // finds it in a Secret that exists; nil if Decide finds it
	asked  bool  // counts only if a Service asks for the Secret: the certificate differs from what it asks for
	// free: it takes no token of its namespace, since many Secrets may have it at the same time
	// and it is not, or not only, the doing of the namespace's users.
	free  bool
	works bool // clients accept the certificate until it is replaced
}

// Causes of which no check is asked.
var (
	first       = cause{reason: reasonFirst, free: true}
	missing     = cause{reason: reasonMissing}
	foreignData = cause{reason: reasonGarbage}
	takenOver   = cause{reason: reasonSucceeded, free: true, works: true}
)

// causes are all that a check finds, in the order in which they are asked.
var causes = []cause{
	{reason: reasonEmpty, check: isEmpty},
	{check: isDefect}, // of the reason that the Secret's facts give
	{reason: reasonOtherCA, check: isSignedByOther, free: true},
	{reason: reasonWrongUsage, check: hasWrongUsage},
	{reason: reasonChainChanged, check: hasOtherChain, free: true},
	{reason: reasonNotYetValid, check: isNotYetValid, free: true},
	{reason: reasonExpired, check: isExpired, free: true},
	{reason: reasonDue, check: isDue, free: true, works: true},
	{reason: reasonSucceeded, check: isSucceeded, free: true, works: true},
	{reason: reasonChainChanged, check: isShortened, free: true},
	{reason: reasonNames, check: hasOtherNames, asked: true, works: true},
	{reason: reasonAlgorithm, check: hasOtherAlgorithm, asked: true, works: true},
	{reason: reasonDuration, check: hasOtherDuration, asked: true, works: true},
	{reason: reasonRequested, check: isRequested, asked: true, works: true},
}

// of is the cause as it is found in a Secret: a defect is named by the Secret's facts.
func (c cause) of(secret *SecretFacts) cause {
	if c.reason == "" {
		c.reason = secret.Defect
	}
	return c
}

// tokensOfRSA4096 is the number of namespace tokens that one such key costs: generating it takes
// as long as many others.
const tokensOfRSA4096 = 15

// tokens returns the number of namespace tokens that issuing a certificate with such a key uses.
func (c cause) tokens(key pki.KeyAlgorithm) int {
	switch {
	case key == pki.RSA4096:
		return tokensOfRSA4096
	case c.free:
		return 0
	}
	return 1
}

// candidate is a Secret that exists, compared with what is wanted.
type candidate struct {
	now      time.Time
	secret   *SecretFacts
	wanted   api.Wanted
	retained bool
	ca       *pki.Authority
	by       *verification // who signed it, as far as ca knows
}

func newCandidate(s Situation, d Decision, secret *SecretFacts) candidate {
	return candidate{s.Now, secret, d.Wanted, d.Retained, s.Authority, secret.verify(s.Authority)}
}

// check returns why the certificate must be replaced now, in a sentence. With an empty message it
// returns when it must be asked again, after now: zero if time alone does not change the answer.
type check func(candidate) (message string, at time.Time)

// evaluate returns the cause that a check finds first. If there is none, at is the earliest time
// at which one of them must be asked again, or zero.
func evaluate(c candidate) (found cause, message string, at time.Time) {
	for _, cause := range causes {
		if cause.check == nil || cause.asked && c.retained {
			continue
		}
		message, again := cause.check(c)
		if message != "" {
			return cause.of(c.secret), message, time.Time{}
		}
		if !again.IsZero() && (at.IsZero() || again.Before(at)) {
			at = again
		}
	}
	return cause{}, "", at
}

// good is the answer of a check that only a change can make another.
func good() (string, time.Time) { return "", time.Time{} }

func isEmpty(c candidate) (string, time.Time) {
	if !c.secret.Empty {
		return good()
	}
	return "the Secret holds neither a certificate nor a key", time.Time{}
}

func isDefect(c candidate) (string, time.Time) {
	if c.secret.Defect == "" {
		return good()
	}
	return cmp.Or(c.secret.Detail, string(c.secret.Defect)), time.Time{}
}

func isSignedByOther(c candidate) (string, time.Time) {
	if c.by.issuer != nil {
		return good()
	}
	return "the certificate was not signed by this CA", time.Time{}
}

func hasWrongUsage(c candidate) (string, time.Time) {
	if c.secret.Leaf.Usages == nil {
		return good()
	}
	return "not a serving certificate: " + c.secret.Leaf.Usages.Error(), time.Time{}
}

func hasOtherChain(c candidate) (string, time.Time) {
	if c.by.chained {
		return good()
	}
	return fmt.Sprintf("the chain after the leaf is not that of this CA, which is one of %d", len(c.by.issuer.Chain)), time.Time{}
}

// isNotYetValid replaces what was issued while the clock was ahead. A clock that is behind
// now does not get here: nothing is signed by it.
func isNotYetValid(c candidate) (string, time.Time) {
	if !c.now.Before(c.secret.Leaf.NotBefore) {
		return good()
	}
	return "not valid before " + c.secret.Leaf.NotBefore.Format(time.RFC3339), time.Time{}
}

func isExpired(c candidate) (string, time.Time) {
	if c.now.Before(c.secret.Leaf.NotAfter) {
		return good() // isDue comes earlier
	}
	return "expired at " + c.secret.Leaf.NotAfter.Format(time.RFC3339), time.Time{}
}

// isDue leaves a certificate alone that ends no earlier than the CA that signs
// now: another would end then too, and close to that end be due the moment it is
// issued.
func isDue(c candidate) (string, time.Time) {
	due := c.secret.Leaf.RenewAt
	switch {
	case c.now.Before(due):
		return "", due
	case !c.secret.Leaf.NotAfter.Before(c.ca.Certificate.NotAfter):
		return good()
	}
	return "due for renewal since " + due.Format(time.RFC3339), time.Time{}
}

// isSucceeded replaces what an earlier issuer signed, each certificate at its own
// time: all of them at once would be a burst for everyone who reads them.
func isSucceeded(c candidate) (string, time.Time) {
	if !c.by.succeeded() {
		return good()
	}
	if at := c.ca.Reissue.AtOf(c.secret.Leaf.Sum); c.now.Before(at) {
		return "", at
	}
	return fmt.Sprintf("signed by %q, which %q has succeeded", nameOfCA(c.by.issuer), nameOfCA(&c.ca.Issuer)), time.Time{}
}

// isShortened replaces a certificate that is served with others that are about to
// expire: GnuTLS refuses what ends with one that has.
func isShortened(c candidate) (string, time.Time) {
	if !c.by.tail {
		return good()
	}
	if at := c.by.issuer.Shorten.AtOf(c.secret.Leaf.Sum); c.now.Before(at) {
		return "", at
	}
	return "a certificate in the chain after the leaf is about to expire", time.Time{}
}

// nameOfCA returns what a CA is called in messages and labels.
func nameOfCA(issuer *pki.Issuer) string { return issuer.Certificate.Subject.CommonName }

func hasOtherNames(c candidate) (string, time.Time) {
	leaf := c.secret.Leaf
	if slices.Equal(leaf.DNSNames, c.wanted.DNSNames) && slices.Equal(leaf.IPs, c.wanted.IPs) {
		return good()
	}
	return fmt.Sprintf("the certificate is for %s, must be for %s", describeNames(leaf.DNSNames, leaf.IPs), describeNames(c.wanted.DNSNames, c.wanted.IPs)), time.Time{}
}

func hasOtherAlgorithm(c candidate) (string, time.Time) {
	have := c.secret.Leaf.KeyAlgorithm
	if have == c.wanted.Params.KeyAlgorithm {
		return good()
	}
	if have == "" {
		have = "of an unknown kind"
	}
	return fmt.Sprintf("the key is %s, must be %s", have, c.wanted.Params.KeyAlgorithm), time.Time{}
}

// hasOtherDuration holds a local CA to the second. A remote one may give a
// shorter lifetime than it was asked for, and date back: what it, or a CA of
// before, has signed is only not to live longer.
func hasOtherDuration(c candidate) (string, time.Time) {
	leaf, issuer := c.secret.Leaf, c.by.issuer.Certificate
	if c.ca.Key == nil || c.by.succeeded() {
		if !leaf.NotAfter.After(issue.EndOf(leaf.NotBefore.Add(issue.MaxBackdate), c.wanted.Params.Duration, issuer)) {
			return good()
		}
	} else if leaf.NotAfter.Equal(issue.EndOf(leaf.NotBefore, c.wanted.Params.Duration, issuer)) {
		return good()
	}
	return fmt.Sprintf("the certificate's lifetime is %s, must be %s", leaf.NotAfter.Sub(leaf.NotBefore), c.wanted.Params.Duration), time.Time{}
}

// isRequested looks at a renew-after only once that time has come: before it,
// a new certificate would be older than the time too, and the next as well. What
// a remote CA issued does not tell when; of that the record counts too.
func isRequested(c candidate) (string, time.Time) {
	at := c.wanted.RenewAfter
	switch {
	case at.After(c.now):
		return "", at
	case at.IsZero() || !c.secret.Leaf.IssuedAt.Before(at):
		return good()
	case c.ca.Key == nil && !c.secret.renewedAfter().Before(at):
		return good()
	}
	return "renewal was requested for certificates issued before " + at.Format(time.RFC3339), time.Time{}
}
