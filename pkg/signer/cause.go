package signer

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
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

// tokensOfRSA4096 is how many tokens of its namespace one such key costs: drawing it takes
// as long as many others.
const tokensOfRSA4096 = 15

// tokens is how many of its namespace a certificate takes that is issued with such a key.
func (c cause) tokens(key pki.KeyAlgorithm) int {
	switch {
	case key == pki.RSA4096:
		return tokensOfRSA4096
	case c.free:
		return 0
	}
	return 1
}

// limited returns when a certificate may be issued that takes so many tokens of the namespace, and
// the problem until then.
func (c cause) limited(s Situation, tokens int) (at time.Time, p Problem) {
	slot := s.Slot
	// A Secret that was deleted, and whose Service says only that it has to wait, looks
	// as if it had never been.
	if tokens == 0 && c.reason != reasonFirst {
		slot.Namespace = time.Time{}
	}
	at, limit := s.Rates.reached(slot, "Secret")
	return at, Problem{
		Reason:    reasonRateLimited,
		Message:   fmt.Sprintf("%s; the next one for this Secret is issued at %s", limit, wholeSecond(at)),
		Temporary: c.works,
	}
}
