package probe

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Trust is the published state of the CA.
type Trust struct {
	// ID changes with the Bundle and with the generation that signs. It is empty while they are
	// unknown.
	ID     string
	Bundle pki.Bundle
	// Since is when the phase of the CA began; zero if unknown.
	Since time.Time
	// signing are the roots of the generation that signs, or candidates if the names are ambiguous.
	signing []*x509.Certificate
}

// Signing returns a root of the generation that signs; nil if none is known.
func (t Trust) Signing() *x509.Certificate {
	if len(t.signing) == 0 {
		return nil
	}
	return t.signing[0]
}

// TrustOf returns the state in the status, or an error if its bundle is invalid.
func TrustOf(status api.CAStatus) (Trust, error) {
	bundle, err := pki.ParseBundle([]byte(status.Bundle))
	if err != nil {
		return Trust{}, err
	}
	return Trust{
		ID: fmt.Sprintf("%d %s", status.Generation, bundle.Hash()), Bundle: bundle,
		Since: status.Since, signing: signingRoots(bundle.Certificates(), status.Generation),
	}, nil
}

// signingRoots returns the roots of the generation by name. If there is none, its root was
// imported: it is among those whose name contains no generation.
func signingRoots(roots []*x509.Certificate, generation int) []*x509.Certificate {
	var its, unnamed []*x509.Certificate
	for _, root := range roots {
		number, named := pki.OwnGeneration(root.Subject.CommonName)
		switch {
		case !named:
			unnamed = append(unnamed, root)
		case number == strconv.Itoa(generation):
			its = append(its, root)
		}
	}
	switch {
	case len(its) > 0:
		return its
	case len(unnamed) > 0:
		return unnamed
	}
	return roots
}

// A Demand is what the certificate of a pod's own key must be at a port. It is comparable.
type Demand struct {
	Names string // which it must have, separated by commas
	// Other: another signer issues it, which this cluster's roots do not verify, and one of the names is enough.
	Other bool
}

// PodKeyRequirements are the requirements for the certificate of a pod's own key.
type PodKeyRequirements struct {
	Demanded map[uint16]Demand // by port
}

// PodKeyResult is the result of the checks of the certificate of a pod's own key. It is valid for
// the trust and the names with which it was made.
type PodKeyResult struct {
	Trust    string // Trust.ID
	Demanded Demand // of the port
	// Verifies: clients with the bundle accept it. Newest: the generation that signs issued it. Of another signer's, only
	// the validity is known.
	Verifies, Newest bool
	Lacks            string // the first demanded name that it does not have, or empty
	// RefreshAt is when its kubelet is due to begin to replace it.
	RefreshAt time.Time
}

// check checks a certificate that a server has shown at a port. One from the future is checked as
// at its NotBefore, because clocks differ.
func (q PodKeyRequirements) check(port uint16, leaf *x509.Certificate, chain []*x509.Certificate, trust Trust, now time.Time) *PodKeyResult {
	j := &PodKeyResult{Trust: trust.ID, Demanded: q.Demanded[port], RefreshAt: pki.RefreshAt(leaf)}
	if len(leaf.Raw) > pki.MaxCertificate || len(leaf.DNSNames) > api.MaxNames || len(leaf.IPAddresses) > api.MaxNames {
		return j
	}
	if j.Demanded.Other {
		return j.checkOther(leaf, now)
	}
	for name := range strings.SplitSeq(j.Demanded.Names, ",") {
		if leaf.VerifyHostname(name) != nil {
			j.Lacks = cmp.Or(j.Lacks, name)
		}
	}
	if now.Before(leaf.NotBefore) {
		now = leaf.NotBefore
	}
	chain = chain[:min(len(chain), maxChain)]
	if _, err := pki.VerifiedUntil(leaf, chain, trust.signing, now); err == nil {
		j.Newest, j.Verifies = true, true
		return j
	}
	_, err := pki.VerifiedUntil(leaf, chain, trust.Bundle.Certificates(), now)
	j.Verifies = err == nil
	return j
}

// maxSkew is by how much the clocks of a node and of the rotator may differ.
const maxSkew = 5 * time.Minute

// LatestRefresh is how long before the end of a certificate its kubelet begins to replace it at the latest
// (PodCertificateRequest, status.beginRefreshAt).
const LatestRefresh = 10 * time.Minute

// checkOther checks the certificate of another signer, which alone knows who verifies it and when it is to be replaced.
func (j *PodKeyResult) checkOther(leaf *x509.Certificate, now time.Time) *PodKeyResult {
	j.RefreshAt = leaf.NotAfter.Add(-LatestRefresh)
	j.Verifies, j.Newest = now.Before(leaf.NotAfter), true
	if now.Before(leaf.NotBefore.Add(-maxSkew)) || pki.UsageDefect(leaf) != "" {
		j.Lacks = "a use as a server's certificate now"
		return j
	}
	for name := range strings.SplitSeq(j.Demanded.Names, ",") {
		if leaf.VerifyHostname(name) == nil {
			j.Lacks = ""
			return j
		}
		j.Lacks = cmp.Or(j.Lacks, name)
	}
	return j
}
