package probe

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// A Judgement is whether a port that admits only some clients was seen to refuse a stranger, or to admit it. Empty: it
// was seen to do neither, which is never a refusal.
type Judgement string

// The judgements.
const (
	Refused  Judgement = "refused"
	Admitted Judgement = "admitted"
)

// refusals are the alerts by which a server refuses a client because of its certificate (RFC 8446, 6.2). An ended or
// reset connection is none of them: so ends that of a client which was admitted, if the program is away. Nor is
// handshake_failure, which has other causes. servingcert's proxy sends the first two.
var refusals = alerts(
	116, // certificate_required
	42,  // bad_certificate
	43,  // unsupported_certificate
	45,  // certificate_expired
	46,  // certificate_unknown
	48,  // unknown_ca
	49,  // access_denied
)

// alerts returns the texts of alerts: crypto/tls exports neither their type nor their names.
func alerts(numbers ...uint8) (texts []string) {
	for _, n := range numbers {
		texts = append(texts, tls.AlertError(n).Error())
	}
	return texts
}

// JudgementOf returns the judgement of a server in TLS. err is nil if it has admitted the client, or the error with which
// the connection ended; demanded: it had demanded a certificate before.
func JudgementOf(demanded bool, err error) Judgement {
	var op *net.OpError
	switch {
	case err == nil:
		return Admitted
	case demanded && errors.As(err, &op) && op.Op == "remote error" && slices.Contains(refusals, op.Err.Error()):
		return Refused
	}
	return ""
}

// PlaintextJudgement returns the judgement of a server that has answered plaintext with the bytes so far, at most as many as
// in the refusal, which is how the proxy answers. Only the whole refusal is one: the program behind the port may close
// connections too.
func PlaintextJudgement(answer []byte, refusal string) Judgement {
	switch {
	case string(answer) == refusal:
		return Refused
	case !strings.HasPrefix(refusal, string(answer)):
		return Admitted
	}
	return ""
}

// A Stranger is a client that no list of clients names.
type Stranger string

// The strangers, in the order in which they try.
const (
	NoCertificate Stranger = "without a certificate"
	Forged        Stranger = "with a forged certificate" // of a listed identity, by the name of the right CA
	InPlaintext   Stranger = "without TLS"
)

// Guarding is what a port did to strangers. It does not change.
type Guarding struct {
	At time.Time // when the first of them began
	// Judgement is Admitted if the port admitted one of them, and Refused if it refused all.
	Judgement Judgement
	// Stranger is the first that was not refused, and Cause why no judgement was seen.
	Stranger Stranger
	Cause    Cause
	// Admits identifies the list of clients that was in the pod's annotation, and Leaf is the one that was served.
	Admits, Leaf string
	// Since is the At of the first of those in a row with this Judgement and Admits, and First that of the first of those with
	// this Admits that were, as this one, Refused or not; zero for Since. A port that answers otherwise each time is one that
	// does not refuse.
	Since, First time.Time
}

// A Guard is a port that should admit only some clients.
type Guard struct {
	// Plaintext: it serves plaintext too, but not to strangers.
	Plaintext bool
	// Listed is an identity that it admits, as far as there is one, without the trust domain.
	Listed pki.SPIFFEID
	// Admits is as in Guarding. If the port serves Leaf, it has refused all strangers lately, and only the first tries again,
	// which costs no handshake.
	Admits, Leaf string
}

// ListedIn returns an identity, without the trust domain, that a list of clients admits: that of its first entry with one. A
// part that may be any is the namespace, or default.
func ListedIn(entries []string, namespace string) pki.SPIFFEID {
	id := pki.SPIFFEID{Namespace: namespace, ServiceAccount: "default"}
	for _, entry := range entries {
		if of, account, ok := strings.Cut(entry, "/"); ok {
			if of != "*" {
				id.Namespace = of
			}
			if account != "*" {
				id.ServiceAccount = account
			}
			break
		}
	}
	return id
}

// Try returns what the port did to strangers, from the outcome of the dial that began at the given time, and showed no
// certificate; nil if there is nothing new. as lets another stranger try.
func (v Guard) Try(at time.Time, leaf string, first Outcome, as func(Stranger) (Judgement, Cause)) *Guarding {
	g := &Guarding{At: at, Since: at, Admits: v.Admits, Leaf: leaf}
	if !g.tried(NoCertificate, first.Judgement, cmp.Or(first.Unjudged, first.Cause, CauseOther)) {
		return g
	}
	if leaf != "" && leaf == v.Leaf {
		return nil
	}
	for _, who := range []Stranger{Forged, InPlaintext} {
		if who == InPlaintext && !v.Plaintext {
			continue
		}
		if judgement, cause := as(who); !g.tried(who, judgement, cmp.Or(cause, CauseOther)) {
			return g
		}
	}
	return g
}

// untried returns that nothing was seen of strangers, with the cause; nil if none was to try at the port.
func (v Target) untried(port uint16, at time.Time, cause Cause) *Guarding {
	guard, guarded := v.Guards[port]
	if !guarded {
		return nil
	}
	return &Guarding{At: at, Since: at, Admits: guard.Admits, Stranger: NoCertificate, Cause: cause}
}

// tried records how a stranger was judged, and reports whether it was refused.
func (g *Guarding) tried(who Stranger, judgement Judgement, cause Cause) bool {
	if g.Judgement = judgement; judgement == Refused {
		return true
	}
	if g.Stranger = who; judgement == "" {
		g.Cause = cause
	}
	return false
}

// follow returns the Guarding that is known after the next one. Each may be nil.
func (g *Guarding) follow(next *Guarding) *Guarding {
	switch {
	case next == nil:
		return g
	case g == nil || (g.Judgement == Refused) != (next.Judgement == Refused) || g.Admits != next.Admits:
		return next
	}
	out := *next
	out.First = cmp.Or(g.First, g.Since)
	if g.Judgement == next.Judgement {
		out.Since = g.Since
	}
	return &out
}
