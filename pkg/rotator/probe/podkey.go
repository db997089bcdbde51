package probe

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Trust is what the signer publishes of the CA.
type Trust struct {
	// ID changes with the Bundle and with the generation that signs. It is empty as long
	// as neither is known.
	ID     string
	Bundle pki.Bundle
	// Since is when the phase of the CA began, zero if that is not known.
	Since time.Time
	// signing are the roots of the Bundle of which one is that of the generation that
	// signs: several only if names do not tell.
	signing []*x509.Certificate
}

// TrustOf returns what the status says, or why its bundle cannot be read.
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

// signingRoots returns those that are of the generation by name. If none is, its root was
// imported: then those whose names tell no other generation.
func signingRoots(roots []*x509.Certificate, generation int) []*x509.Certificate {
	var its, unnamed []*x509.Certificate
	for _, root := range roots {
		match := ourCA.FindStringSubmatch(root.Subject.CommonName)
		switch {
		case match == nil:
			unnamed = append(unnamed, root)
		case match[1] == strconv.Itoa(generation):
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

// PodKeyQuestion is what is asked of the certificate of a pod that has a key of its own.
type PodKeyQuestion struct {
	Demanded map[uint16]string // names that it must have, by port, separated by commas
}

// PodKeyJudgement is what was found out about the certificate of a pod that has a key of its
// own. It holds for the trust and the names that it was made with.
type PodKeyJudgement struct {
	Trust, Demanded string // Trust.ID, and of PodKeyQuestion.Demanded
	// Verifies: clients that have the bundle accept it. Newest: the generation that signs
	// has signed it.
	Verifies, Newest bool
	Lacks            string // the first of the demanded names that it does not have, or empty
	// RefreshAt is when its kubelet was asked to begin to replace it.
	RefreshAt time.Time
}

// judge answers the question for what a server has shown at a port, at a time. A certificate is
// judged as at its begin if that is in the future: clocks differ.
func (q PodKeyQuestion) judge(port uint16, leaf *x509.Certificate, chain []*x509.Certificate, trust Trust, now time.Time) *PodKeyJudgement {
	j := &PodKeyJudgement{Trust: trust.ID, Demanded: q.Demanded[port], RefreshAt: pki.RefreshAt(leaf)}
	if len(leaf.Raw) > pki.MaxCertificate || len(leaf.DNSNames) > api.MaxNames || len(leaf.IPAddresses) > api.MaxNames {
		return j
	}
	for name := range strings.SplitSeq(j.Demanded, ",") {
		if leaf.VerifyHostname(name) != nil {
			j.Lacks = cmp.Or(j.Lacks, name)
		}
	}
	if now.Before(leaf.NotBefore) {
		now = leaf.NotBefore
	}
	chain = chain[:min(len(chain), maxChain)]
	accepts := func(root *x509.Certificate) bool { return pki.VerifyServing(leaf, chain, root, now) == nil }
	j.Newest = slices.ContainsFunc(trust.signing, accepts)
	j.Verifies = j.Newest || slices.ContainsFunc(trust.Bundle.Certificates(), accepts)
	return j
}
