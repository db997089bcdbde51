package issue

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Check returns an error if the leaf differs from the request (invariant 2).
func Check(leaf *x509.Certificate, pub crypto.PublicKey, ca *pki.Authority, request SigningRequest, now time.Time) error {
	key, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	dnsNames, ips := pki.NamesOf(leaf)
	switch {
	case !ok || !key.Equal(pub):
		return errors.New("it is for another key")
	case !slices.Equal(dnsNames, request.DNSNames):
		return fmt.Errorf("its names are %q, must be %q", leaf.DNSNames, request.DNSNames)
	case !slices.Equal(ips, request.IPs):
		return fmt.Errorf("its IP addresses are %v, must be %v", leaf.IPAddresses, request.IPs)
	case request.CommonName != "" && leaf.Subject.CommonName != request.CommonName:
		return fmt.Errorf("its common name is %q, must be %q", leaf.Subject.CommonName, request.CommonName)
	case leaf.Subject.CommonName != "" && !slices.Contains(request.DNSNames, leaf.Subject.CommonName):
		return fmt.Errorf("its common name is %q, must be empty or one of %q", leaf.Subject.CommonName, request.DNSNames)
	case leaf.NotAfter.After(request.NotAfter):
		return fmt.Errorf("it expires at %s, must not expire after %s", leaf.NotAfter.Format(time.RFC3339), request.NotAfter.Format(time.RFC3339))
	case leaf.NotBefore.After(now):
		return fmt.Errorf("it is not valid before %s", leaf.NotBefore.Format(time.RFC3339))
	case leaf.NotBefore.Before(request.NotBefore.Add(-MaxBackdate)):
		return fmt.Errorf("it is valid from %s, must not be valid earlier than %s before it is issued", leaf.NotBefore.Format(time.RFC3339), MaxBackdate+pki.Backdate)
	}
	if err := checkUse(leaf, request); err != nil {
		return err
	}
	if err := checkVerifies(leaf, ca, request, now); err != nil {
		return err
	}
	return checkLasts(leaf, ca, now)
}

// checkUse returns an error unless the leaf is only for what is requested: to serve, or to show an
// identity.
func checkUse(leaf *x509.Certificate, request SigningRequest) error {
	if request.Identity != (pki.SPIFFEID{}) {
		return pki.CheckIdentity(leaf, request.KeyAlgorithm, request.Identity)
	}
	return pki.CheckUsages(leaf, request.KeyAlgorithm)
}

// checkVerifies returns an error that names a root of a peer that would reject the leaf, or nil.
func checkVerifies(leaf *x509.Certificate, ca *pki.Authority, request SigningRequest, now time.Time) error {
	if len(ca.Anchors) == 0 {
		return errors.New("no client can verify it: the CA has no root")
	}
	verify, peer := pki.VerifyServing, "client"
	if request.Identity != (pki.SPIFFEID{}) {
		verify, peer = pki.VerifyClient, "server"
	}
	for _, root := range ca.Anchors {
		if err := verify(leaf, ca.Chain, root, now); err != nil {
			return fmt.Errorf("a %s that trusts only %q rejects it: %w", peer, root.Subject.CommonName, err)
		}
	}
	return nil
}

// Limits of the deviation of a remote CA from the request. Beyond them, certificates would
// be renewed in a loop.
const (
	// MaxBackdate is how much earlier than requested a certificate may begin.
	MaxBackdate = time.Hour + pki.Backdate
	// minLifetime and minUntilRenewal are the least for a certificate that ends before
	// its CA.
	minLifetime     = 15 * time.Minute
	minUntilRenewal = time.Minute
)

// checkLasts returns an error if the leaf would have to be replaced at once.
func checkLasts(leaf *x509.Certificate, ca *pki.Authority, now time.Time) error {
	lifetime := pki.Lifetime(leaf)
	switch {
	case !leaf.NotAfter.Before(ca.Certificate.NotAfter): // no certificate can end later
		return nil
	case lifetime < minLifetime:
		return fmt.Errorf("its lifetime is %s, must be at least %s", lifetime, minLifetime)
	case pki.RenewAt(leaf).Before(now.Add(minUntilRenewal)):
		return fmt.Errorf("it is valid from %s to %s and would be due for renewal at %s: it must be valid for at least %s after it is issued", leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339), pki.RenewAt(leaf).Format(time.RFC3339), minLifetime)
	}
	return nil
}
