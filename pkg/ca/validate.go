package ca

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/servingcert/servingcert/pkg/pki"
)

// validate returns an error if the state is not valid. Errors name the Secret's keys
// and never contain private key material.
func validate(s State) error {
	if len(s.Generations) == 0 {
		return fmt.Errorf("%s: must list at least one generation", keyState)
	}
	for i, g := range s.Generations {
		if g.Number < 1 {
			return fmt.Errorf("%s: generation %d: must be at least 1", keyState, g.Number)
		}
		if i > 0 && g.Number <= s.Generations[i-1].Number {
			return fmt.Errorf("%s: generation %d is listed after generation %d: must be in ascending order", keyState, g.Number, s.Generations[i-1].Number)
		}
	}
	for i, g := range s.Generations {
		if g.Origin != OriginOwn && g.Origin != OriginImport && g.Origin != OriginRemote {
			return fmt.Errorf("%s: generation %d: unknown origin: must be %q, %q or absent", keyState, g.Number, OriginImport, OriginRemote)
		}
		if err := validateCertificates(s, i); err != nil {
			return err
		}
	}
	return validateSigning(s)
}

func validateCertificates(s State, i int) error {
	g := s.Generations[i]
	if err := validateRoot(g.Root); err != nil {
		return fmt.Errorf("%s: %w", certificateKey(g.Number), err)
	}
	if err := validateIntermediates(g); err != nil {
		return fmt.Errorf("%s: %w", chainKey(g.Number), err)
	}
	if err := validateEnd(g); err != nil {
		return err
	}
	if err := validateKey(s, g); err != nil {
		return fmt.Errorf("%s: %w", privateKey(g.Number), err)
	}
	if err := validateCross(s, i); err != nil {
		return fmt.Errorf("%s: %w", crossKey(g.Number), err)
	}
	return nil
}

func validateSigning(s State) error {
	i := s.signingIndex()
	if i < 0 {
		return fmt.Errorf("%s: generation %d signs and is not listed", keyState, s.Signing)
	}
	for _, g := range s.Generations[i:] {
		if g.Key == nil && g.Origin != OriginRemote {
			return fmt.Errorf("%s: missing: only generations older than the one that signs (%d) have no key", privateKey(g.Number), s.Signing)
		}
		if g.Retired {
			return fmt.Errorf("%s: generation %d is retired, but generation %d signs: only older generations can be retired", keyState, g.Number, s.Signing)
		}
	}
	return nil
}

func validateCA(c *x509.Certificate) error {
	switch {
	case !c.IsCA || !c.BasicConstraintsValid:
		return errors.New("the certificate is not a CA")
	case c.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("the certificate's key usage does not allow signing certificates")
	}
	return nil
}

func validateRoot(root *x509.Certificate) error {
	if root == nil {
		return errors.New("missing")
	}
	if err := validateCA(root); err != nil {
		return err
	}
	if !isSelfSigned(root) {
		return errors.New("the certificate is not self-signed: must be a root")
	}
	return nil
}

func isSelfSigned(c *x509.Certificate) bool {
	return c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// validateIntermediates checks that each intermediate is signed by the next, and the
// last by the root.
func validateIntermediates(g Generation) error {
	for i, c := range g.Intermediates {
		if err := validateCA(c); err != nil {
			return fmt.Errorf("certificate %d: %w", i+1, err)
		}
		issuer := g.Root
		if i+1 < len(g.Intermediates) {
			issuer = g.Intermediates[i+1]
		}
		if err := c.CheckSignatureFrom(issuer); err != nil {
			return fmt.Errorf("certificate %d (%s) was not signed by %s", i+1, c.Subject.CommonName, issuer.Subject.CommonName)
		}
	}
	return nil
}

// validateEnd checks that the CA does not expire before the leaves under it, which a
// written CA never does. A certificate that was replaced by hand must not be mistaken
// for an expired CA, which is replaced at once.
func validateEnd(g Generation) error {
	key := certificateKey(g.Number)
	if g.Root.NotAfter.After(g.Ends()) {
		key = chainKey(g.Number)
	}
	if end := g.Ends(); g.UsedUntil.After(end) {
		return fmt.Errorf("%s: expires at %s, but certificates under it may be in use until %s: it is not the certificate that was written", key, formatTime(end), formatTime(g.UsedUntil))
	}
	return nil
}

func validateKey(s State, g Generation) error {
	if g.Key == nil || pki.KeyMatches(g.Issuer(), g.Key) {
		return nil
	}
	own := certificateKey(g.Number)
	if len(g.Intermediates) > 0 {
		own = chainKey(g.Number)
	}
	for _, other := range s.Generations {
		if other.Root != nil && other.Number != g.Number && pki.KeyMatches(other.Issuer(), g.Key) {
			return fmt.Errorf("the private key belongs to %s, not to %s", certificateKey(other.Number), own)
		}
	}
	return fmt.Errorf("the private key does not belong to %s", own)
}

func validateCross(s State, i int) error {
	g := s.Generations[i]
	if g.Cross == nil {
		return nil
	}
	switch {
	case !g.Cross.IsCA || !g.Cross.BasicConstraintsValid:
		return errors.New("the certificate is not a CA")
	case !bytes.Equal(g.Cross.RawSubjectPublicKeyInfo, g.Root.RawSubjectPublicKeyInfo):
		return fmt.Errorf("the key of the certificate is not the key of %s", certificateKey(g.Number))
	case !bytes.Equal(g.Cross.RawSubject, g.Root.RawSubject):
		return fmt.Errorf("the subject of the certificate is not the subject of %s", certificateKey(g.Number))
	case g.Cross.NotAfter.After(g.Root.NotAfter):
		return fmt.Errorf("the certificate expires after %s, which expires at %s: one of them is not the certificate that was written", certificateKey(g.Number), formatTime(g.Root.NotAfter))
	case isSelfSigned(g.Cross): // checked by key: a CA that keeps its name with a new key is not self-signed
		return errors.New("the certificate is self-signed: must be signed by the previous generation")
	}
	if i > 0 {
		before := s.Generations[i-1]
		if err := g.Cross.CheckSignatureFrom(before.Issuer()); err != nil {
			return fmt.Errorf("the certificate was not signed by %s", certificateKey(before.Number))
		}
	}
	return nil
}
