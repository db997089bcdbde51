package ca

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Origin is where a generation comes from.
type Origin string

// The origins.
const (
	OriginOwn    Origin = ""       // made here
	OriginImport Origin = "import" // imported from Secret api.CAImportName
	OriginRemote Origin = "remote" // a remote CA holds the key and signs
)

// Generation is one key of the CA with its certificates. Times are in whole seconds,
// UTC.
type Generation struct {
	// Number counts generations, from 1. It is part of the subject of a root that
	// was made here.
	Number int
	Origin Origin
	// Domain is the cluster domain that it was made for.
	Domain string
	// Why it was made, for people.
	Why string
	// Root is the self-signed certificate that clients trust.
	Root *x509.Certificate
	// Intermediates are the certificates between a leaf and the Root, the issuer of
	// leaves first. Empty if the Root's key signs leaves.
	Intermediates []*x509.Certificate
	// Cross is the Root's key and subject signed by the previous generation, so that
	// a client which holds only that generation's root verifies too. Nil for the
	// first generation, and if the previous one had no key to sign it with.
	Cross *x509.Certificate
	// Key is nil once it was erased: another generation signs now.
	Key crypto.Signer

	MadeAt     time.Time // when it was prepared
	TrustedAt  time.Time // since when every target is known to hold its root; zero: not yet
	SignsSince time.Time // when it was promoted; zero: not yet
	// UsedUntil is the latest NotAfter that the generation may sign. It is written
	// before it is used, so that the time when the root is last needed is certain.
	// It never decreases. Zero: nothing was signed.
	UsedUntil time.Time
	// Retired: the root has left the bundle. Its part of the chain remains, for
	// clients that still hold an older root.
	Retired bool
}

// String returns the generation as messages show it.
func (g Generation) String() string {
	return fmt.Sprintf("generation %d (%s)", g.Number, g.Issuer().Subject.CommonName)
}

// Issuer returns the certificate whose key signs leaves.
func (g Generation) Issuer() *x509.Certificate {
	if len(g.Intermediates) > 0 {
		return g.Intermediates[0]
	}
	return g.Root
}

// Ends returns the earliest NotAfter of the generation's certificates.
func (g Generation) Ends() time.Time {
	end := g.Root.NotAfter
	for _, c := range g.Intermediates {
		end = limit.Earliest(end, c.NotAfter)
	}
	return end
}

// outOfTime returns why the generation cannot sign at now; zero if it can.
func (g Generation) outOfTime(now time.Time) api.CAMessage {
	switch issuer := g.Issuer(); {
	case now.Before(issuer.NotBefore):
		return api.CAMessage{Reason: api.CANotYetValid, Message: fmt.Sprintf("the CA (%s) is not valid before %s, which is in the future by the clock of this machine. Set the clock; no certificate is issued until then",
			issuer.Subject.CommonName, formatTime(issuer.NotBefore))}
	case now.After(g.Ends()):
		return api.CAMessage{Reason: api.CAExpired, Message: fmt.Sprintf("the CA (%s) expired at %s, and no certificate is issued. If the clock of this machine is right, the CA is replaced as soon as possible",
			issuer.Subject.CommonName, formatTime(g.Ends()))}
	}
	return api.CAMessage{}
}

// signUntil returns the latest NotAfter that a leaf of the generation may have.
func (g Generation) signUntil() time.Time { return limit.Earliest(g.Ends(), g.UsedUntil) }

// inUse reports whether leaves that the generation signed may be in use at now.
func (g Generation) inUse(now time.Time) bool { return !now.After(g.UsedUntil.Add(clockMargin)) }

// trusted reports whether clients must trust the root at now.
func (g Generation) trusted(now time.Time) bool { return !g.Retired && !now.After(g.Root.NotAfter) }

// path returns the CA certificates above a leaf: the issuer first, the root last.
func (g Generation) path() []*x509.Certificate {
	return append(slices.Clone(g.Intermediates), g.Root)
}

// hasPathLength reports whether a certificate of the path has a path length
// constraint.
func (g Generation) hasPathLength() bool { return slices.ContainsFunc(g.path(), hasPathLength) }

func hasPathLength(ca *x509.Certificate) bool { return ca.MaxPathLen > 0 || ca.MaxPathLenZero }

// narrower reports whether the generation permits fewer names than the next one.
// A narrower generation is trusted only while its leaves are in use, because its
// constraints apply for as long, and the ladder ends at it: GnuTLS looks up the root
// by the last certificate of the chain only, and must find it in the bundle.
func (g Generation) narrower(next Generation) bool {
	wanted := pki.ConstraintsOf(next.Root)
	if len(wanted.PermittedDNS) == 0 { // everything
		wanted.PermittedDNS = []string{""}
	}
	return len(g.misses(wanted)) > 0
}

// trustDomain returns the trust domain of a CA for clients; empty for another CA.
func (g Generation) trustDomain() string { return pki.TrustDomainOf(g.Root) }

// misses returns what the constraints permit but the generation's certificates do
// not.
func (g Generation) misses(wanted pki.Constraints) []string {
	var missing []string
	for _, domain := range wanted.PermittedDNS {
		if !pki.PermitsDNS(g.Root, domain) || !pki.PermitsDNS(g.Issuer(), domain) {
			missing = append(missing, domain)
		}
	}
	if wanted.PermitIPs && !(pki.ConstraintsOf(g.Root).PermitIPs && pki.ConstraintsOf(g.Issuer()).PermitIPs) {
		missing = append(missing, "IP addresses")
	}
	return missing
}
