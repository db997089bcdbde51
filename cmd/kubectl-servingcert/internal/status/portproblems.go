package status

import (
	"crypto/x509"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// The problems, in the order of a table.
const (
	ProblemExpired     = "expired"     // it, or a certificate of its chain
	ProblemNotYetValid = "notyetvalid" // it, or a certificate of its chain
	ProblemUsage       = "usage"       // clients refuse its usages or its key
	ProblemStale       = "stale"       // an older certificate than that in the Secret
	ProblemOther       = "other"       // its pod mounts Secrets, and none of them holds the certificate
	ProblemUnread      = "unread"      // a mounted Secret was not read, or has a keystore, so it is unknown whether it is stale
	ProblemExpiring    = "expiring"    // within a tenth of its lifetime
	ProblemOverdue     = "overdue"     // another issuer should have renewed it, or its chain
	ProblemNames       = "names"       // one of the Services has no name in it, or not all of its extra names
	ProblemChain       = "chain"       // untrusted, although its Secret has ca.crt
	ProblemUntrusted   = "untrusted"   // nothing that is known verifies it
	ProblemTrustUnread = "trustunread" // nothing that this user may read verifies it
	ProblemPlaintext   = "plaintext"   // no TLS
	ProblemUnreachable = "unreachable" // no answer, or none that was understood
	ProblemStrangers   = "strangers"   // it admitted a client that none of the Services lists
	ProblemUnguarded   = "unguarded"   // it was not seen whether it refuses such a client
	ProblemNotReady    = "notready"    // of a pod that is not ready, and so was not dialled: it has no port in the report
)

// PortProblems returns all problems.
func PortProblems() []string {
	return []string{
		ProblemExpired, ProblemNotYetValid, ProblemUsage, ProblemStale, ProblemUnread, ProblemOther, ProblemExpiring, ProblemOverdue,
		ProblemNames, ProblemChain, ProblemUntrusted, ProblemTrustUnread, ProblemPlaintext, ProblemUnreachable, ProblemStrangers, ProblemUnguarded, ProblemNotReady,
	}
}

// ServerProblems returns those that no server should have: clients refuse its certificate, it serves
// another one than its Secret has, or was not seen to refuse clients that its Service does not list.
func ServerProblems() []string {
	return []string{ProblemExpired, ProblemNotYetValid, ProblemUsage, ProblemStale, ProblemUnread, ProblemOther, ProblemChain, ProblemStrangers, ProblemUnguarded}
}

// problems returns those of a port that serves the leaf, whose chain clients accept in the period. hasCA: the Secret that it
// is of has ca.crt.
func (p PodPort) problems(s ServedPort, leaf *x509.Certificate, hasCA bool, valid pki.Period, now time.Time) (found []string) {
	lifetime := pki.Lifetime(leaf)
	expired := !now.Before(valid.Until)
	early := !expired && now.Before(valid.From)
	for _, c := range []struct {
		problem string
		is      bool
	}{
		{ProblemExpired, expired},
		{ProblemNotYetValid, early},
		{ProblemUsage, s.Usage != ""},
		{ProblemStale, s.SecretState == OlderThanSecret},
		{ProblemUnread, s.SecretState == SecretUnread},
		{ProblemOther, s.SecretState == NotInSecret},
		{ProblemExpiring, !expired && now.After(leaf.NotAfter.Add(-lifetime/10))},
		{ProblemOverdue, !expired && !early && !p.renewedHere && !now.Before(pki.RenewBy(lifetime, valid.Until))},
		{ProblemNames, len(s.NotNamed) > 0},
		{ProblemChain, s.Trust == TrustNone && hasCA},
		{ProblemUntrusted, s.Trust == TrustNone},
		{ProblemTrustUnread, s.Trust == TrustUnknown},
	} {
		if c.is {
			found = append(found, c.problem)
		}
	}
	return found
}

// notNamed returns the Services whose names the leaf does not have.
func (p PodPort) notNamed(leaf *x509.Certificate) (names []string) {
	for _, svc := range p.selecting {
		if missing, _ := api.MissingNames(svc, p.clusterDomain, leaf); len(missing) > 0 {
			names = append(names, svc.Name)
		}
	}
	return names
}
