package signer

import (
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A cause is why a certificate is issued, with all that follows from it. Decision.issue takes one,
// so that no Reason issues anything without its row in causes.
type cause struct {
	reason Reason
	check  check
	asked  bool // counts only if a Service asks for the Secret: the certificate differs from what it asks for
	// free: it takes no token of its namespace, since many Secrets may have it at the same time
	// and it is not, or not only, the doing of the namespace's users.
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

// candidate is a Secret, and what is wanted of it.
type candidate struct {
	Situation // its Secret may be the one that was just written
	Ownership
	content Content       // that the Secret is to hold; zero if it does not exist
	by      *verification // who signed it, as far as the Authority knows; nil if it does not exist
}

func newCandidate(s Situation, d Decision) candidate {
	c := candidate{Situation: s, Ownership: d.Ownership, content: d.Content}
	if s.Secret != nil {
		c.by = s.Secret.verify(s.Authority)
	}
	return c
}

// check returns why a certificate must be issued, in a sentence, and the time from which on; zero:
// now. With an empty message it returns when it must be asked again, after now: zero if time alone
// does not change the answer.
type check func(candidate) (message string, at time.Time)

// finding is the cause that a check found first. Without a message nothing has to be issued, and at
// is the earliest time at which a check must be asked again, or zero.
type finding struct {
	cause
	message string
	at      time.Time
}

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

// keepAll holds a certificate that goes on as it is, with its Services' conditions.
func keepAll(Situation, Decision) Decision { return Decision{Wait: true} }

// keepNames holds a certificate that goes on with the names that it has.
func keepNames(s Situation, d Decision) Decision {
	d = d.wait(s)
	d.Problem.Temporary = true
	return d
}
