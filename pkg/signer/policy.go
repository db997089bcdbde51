package signer

import (
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A cause is why a certificate is issued, with its consequences. Every issuance has one, since
// Decision.issue takes it as an argument.
type cause struct {
	reason Reason
	check  check
	asked  bool // only for a Secret that a Service requests: the certificate differs from the request
	// free: it takes no token of its namespace, since it may concern many Secrets at the same
	// time and is not caused, or not only, by users of the namespace.
	free  bool
	works bool // clients accept the certificate until it is replaced
	// hold is the decision until the time that the check gives; nil for checks that give none.
	hold func(Situation, Decision) Decision
}

// causes are all reasons to issue a certificate, in the order of their checks. The first two are of
// a Secret that does not exist, and the others of one that does.
var causes = []cause{
	{reason: reasonMissing, check: wasDeleted},
	{reason: reasonFirst, check: doesNotExist, free: true},
	{reason: reasonSucceeded, check: isOfServiceCA, free: true, works: true, hold: keepAll},
	{reason: reasonEmpty, check: isEmpty},
	{reason: reasonKeyMissing, check: hasDefect(reasonKeyMissing)},
	{reason: reasonGarbage, check: hasDefect(reasonGarbage)},
	{reason: reasonMismatch, check: hasDefect(reasonMismatch)},
	{reason: reasonOtherCA, check: isSignedByOther, free: true},
	{reason: reasonWrongUsage, check: hasWrongUsage},
	{reason: reasonChainChanged, check: hasOtherChain, free: true},
	{reason: reasonNotYetValid, check: isNotYetValid, free: true},
	{reason: reasonExpired, check: isExpired, free: true},
	{reason: reasonDue, check: isDue, free: true, works: true},
	{reason: reasonSucceeded, check: isSucceeded, free: true, works: true},
	{reason: reasonChainChanged, check: isShortened, free: true},
	{reason: reasonNames, check: hasOtherNamesByCA, asked: true, free: true, works: true, hold: keepNames},
	{reason: reasonNames, check: hasOtherNames, asked: true, works: true},
	{reason: reasonAlgorithm, check: hasOtherAlgorithm, asked: true, works: true},
	{reason: reasonDuration, check: hasOtherDuration, asked: true, works: true},
	{reason: reasonRequested, check: isRequested, asked: true, works: true},
	{reason: reasonGarbage, check: holdsForeignData},
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

// candidate is a Secret, compared with the wanted certificate.
type candidate struct {
	Situation // its Secret may be the one that was just written
	Ownership
	content Content       // the wanted content of the Secret; zero if the Secret does not exist
	by      *verification // under the Authority; nil if the Secret does not exist
}

func newCandidate(s Situation, d Decision) candidate {
	c := candidate{Situation: s, Ownership: d.Ownership, content: d.Content}
	if s.Secret != nil {
		c.by = s.Secret.verify(s.Authority)
	}
	return c
}

// check returns a message why a certificate must be issued, and the time at which; zero: now. With
// an empty message it returns the time at which to check again, zero if the result does not depend
// on time.
type check func(candidate) (message string, at time.Time)

// finding is the first cause that a check finds. Without a message nothing has to be issued, and at
// is the earliest time at which to check again, or zero.
type finding struct {
	cause
	message string
	at      time.Time
}

// evaluate asks the checks in their order.
func evaluate(c candidate) finding {
	var none finding
	for _, cause := range causes {
		if cause.asked && c.Retained {
			continue
		}
		message, at := cause.check(c)
		if message != "" {
			return finding{cause, message, at}
		}
		none.at = limit.EarliestSet(none.at, at)
	}
	return none
}

// keepAll leaves the certificate and the Services' conditions unchanged until then.
func keepAll(Situation, Decision) Decision { return Decision{Wait: true} }

// keepNames leaves the certificate with its names until then.
func keepNames(s Situation, d Decision) Decision {
	d = d.wait(s)
	d.Problem.Temporary = true
	return d
}
