package ca

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Phase is how far a succession of the CA is.
type Phase string

// PhaseStable is the phase in which no succession is under way: the newest
// generation signs.
const PhaseStable Phase = "Stable"

// Generation is one key of the CA and what belongs to it.
type Generation struct {
	// Number counts generations, from 1. It is part of the root's subject.
	Number int
	// Root is the self-signed certificate that clients trust.
	Root *x509.Certificate
	// Cross is the same key and subject signed by the generation before, so that
	// a client which only holds that one's root verifies too. Nil for the first.
	Cross *x509.Certificate
	// Key is nil once it was erased: another generation signs now.
	Key crypto.Signer
	// UsedUntil is the latest NotAfter that the generation may sign: written down
	// before it is used, so that it is known for sure when the root is last
	// needed. It never goes down. In whole seconds, UTC; zero: nothing was signed.
	UsedUntil time.Time
}

// State is everything that the CA Secret holds.
type State struct {
	Generations []Generation // oldest first
	Signing     int          // the number of the generation that signs
	Phase       Phase
	Since       time.Time // when Phase began; in whole seconds, UTC
}

// maxCrosses bounds the served chain. Java's path builder follows five
// intermediate certificates unless told otherwise
// (PKIXBuilderParameters.getMaxPathLength); three stay well below.
const maxCrosses = 3

// newState returns a CA of one generation that is made at now and lives for
// lifetime. It draws a key.
func newState(now time.Time, constraints pki.Constraints, lifetime, maxDuration time.Duration) (State, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return State{}, fmt.Errorf("make CA key: %w", err)
	}
	notBefore := pki.NotBefore(now)
	root, err := pki.NewRoot(key, 1, constraints, notBefore, notBefore.Add(lifetime))
	if err != nil {
		return State{}, fmt.Errorf("make CA certificate: %w", err)
	}
	s := State{
		Generations: []Generation{{Number: 1, Root: root, Key: key}},
		Signing:     1,
		Phase:       PhaseStable,
		Since:       now.UTC().Truncate(time.Second),
	}
	return s.raised(now, maxDuration), nil
}

// signing returns the generation that signs. The state must be valid.
func (s State) signing() Generation { return s.Generations[s.indexOf(s.Signing)] }

func (s State) indexOf(number int) int {
	for i, g := range s.Generations {
		if g.Number == number {
			return i
		}
	}
	return -1
}

// signUntil returns the latest NotAfter that a leaf of the generation may have.
func (g Generation) signUntil() time.Time {
	if g.Root.NotAfter.Before(g.UsedUntil) {
		return g.Root.NotAfter
	}
	return g.UsedUntil
}

// Bundle returns what clients must trust: the root of every generation, of one
// that does not sign yet and of one that no longer does included.
func (s State) Bundle() pki.Bundle {
	roots := make([]*x509.Certificate, 0, len(s.Generations))
	for _, g := range s.Generations {
		roots = append(roots, g.Root)
	}
	return pki.NewBundle(roots...)
}

// chain returns the certificates to serve after a leaf: the cross-certificates
// from the signing generation down, newest first, as far as the ladder holds at
// now, and never a root.
func (s State) chain(now time.Time) []*x509.Certificate {
	var chain []*x509.Certificate
	for number := s.Signing; len(chain) < maxCrosses; number-- {
		i := s.indexOf(number)
		if i < 0 || s.Generations[i].Cross == nil || now.After(s.Generations[i].Cross.NotAfter) {
			break
		}
		chain = append(chain, s.Generations[i].Cross)
	}
	return chain
}

// Authority returns what signing a leaf and checking one takes at now. The state
// must be valid.
func (s State) Authority(now time.Time) *pki.Authority {
	signing := s.signing()
	return &pki.Authority{
		Issuer:    pki.Issuer{Certificate: signing.Root, Chain: s.chain(now)},
		Key:       signing.Key,
		Bundle:    s.Bundle(),
		Anchors:   s.Bundle().Certificates(),
		SignUntil: signing.signUntil(),
	}
}

// Validate says precisely what is wrong with the state, or returns nil. Errors
// name the Secret's keys and hold nothing of the private ones.
func (s State) Validate() error {
	if len(s.Generations) == 0 {
		return fmt.Errorf("%s: lists no generation", keyState)
	}
	for i, g := range s.Generations {
		if g.Number < 1 {
			return fmt.Errorf("%s: generation %d: numbers start at 1", keyState, g.Number)
		}
		if i > 0 && g.Number <= s.Generations[i-1].Number {
			return fmt.Errorf("%s: generation %d is listed after %d: must be ascending", keyState, g.Number, s.Generations[i-1].Number)
		}
		if err := s.validateRoot(g); err != nil {
			return fmt.Errorf("%s: %w", certificateKey(g.Number), err)
		}
		if err := s.validateKey(g); err != nil {
			return fmt.Errorf("%s: %w", privateKey(g.Number), err)
		}
		if err := s.validateCross(i); err != nil {
			return fmt.Errorf("%s: %w", crossKey(g.Number), err)
		}
	}
	i := s.indexOf(s.Signing)
	switch {
	case i < 0:
		return fmt.Errorf("%s: generation %d is to sign and is not listed", keyState, s.Signing)
	case s.Phase != PhaseStable:
		return fmt.Errorf("%s: unknown phase: must be %q", keyState, PhaseStable)
	}
	for _, g := range s.Generations[i:] {
		if g.Key == nil {
			return fmt.Errorf("%s: missing: only a generation before the one that signs (%d) has none", privateKey(g.Number), s.Signing)
		}
	}
	return nil
}

func (s State) validateRoot(g Generation) error {
	switch {
	case g.Root == nil:
		return errors.New("missing")
	case !g.Root.IsCA || !g.Root.BasicConstraintsValid:
		return errors.New("the certificate is no CA")
	case g.Root.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("the certificate's key usage does not allow signing certificates")
	case g.Root.CheckSignature(g.Root.SignatureAlgorithm, g.Root.RawTBSCertificate, g.Root.Signature) != nil:
		return errors.New("the certificate is not self-signed: must be a root")
	}
	return nil
}

func (s State) validateKey(g Generation) error {
	if g.Key == nil || pki.KeyMatches(g.Root, g.Key) {
		return nil
	}
	for _, other := range s.Generations {
		if other.Root != nil && pki.KeyMatches(other.Root, g.Key) {
			return fmt.Errorf("the private key belongs to %s, not to %s", certificateKey(other.Number), certificateKey(g.Number))
		}
	}
	return fmt.Errorf("the private key does not belong to %s", certificateKey(g.Number))
}

func (s State) validateCross(i int) error {
	g := s.Generations[i]
	if g.Cross == nil {
		return nil
	}
	switch {
	case !g.Cross.IsCA || !g.Cross.BasicConstraintsValid:
		return errors.New("the certificate is no CA")
	case !bytes.Equal(g.Cross.RawSubjectPublicKeyInfo, g.Root.RawSubjectPublicKeyInfo):
		return fmt.Errorf("the certificate is for another key than %s", certificateKey(g.Number))
	case !bytes.Equal(g.Cross.RawSubject, g.Root.RawSubject):
		return fmt.Errorf("the certificate has another subject than %s", certificateKey(g.Number))
	case bytes.Equal(g.Cross.RawIssuer, g.Cross.RawSubject):
		return errors.New("the certificate is self-signed: must be signed by the generation before")
	}
	if i > 0 && s.Generations[i-1].Number == g.Number-1 {
		before := s.Generations[i-1]
		if err := g.Cross.CheckSignatureFrom(before.Root); err != nil {
			return fmt.Errorf("the certificate was not signed by %s", certificateKey(before.Number))
		}
	}
	return nil
}
