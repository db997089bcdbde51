package main

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// maxCrosses is how many cross-certificates are served at most: a root that is
// further away is not reached.
const maxCrosses = 3

// generation is one key of a CA and the certificates of it.
type generation struct {
	key   crypto.Signer
	root  *x509.Certificate
	cross *x509.Certificate // by the generation before; nil for the first
}

// succession is a CA with all its generations; number n is at n-1.
type succession struct {
	name        string // "" for the usual one; part of file names
	generations []generation
}

// newSuccession makes a CA whose generations end at the given times from now.
// All began in the past.
func newSuccession(name string, now time.Time, ends ...time.Duration) (*succession, error) {
	s := &succession{name: name}
	for i, end := range ends {
		begin := now.Add(time.Duration(i-len(ends)) * 24 * time.Hour)
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			return nil, err
		}
		g := generation{key: key}
		g.root, err = pki.NewRoot(key, i+1, api.DefaultLimits().Constraints(), begin, now.Add(end))
		if err != nil {
			return nil, fmt.Errorf("root %d: %w", i+1, err)
		}
		if i > 0 {
			older := s.generations[i-1]
			if g.cross, err = pki.NewCross(g.root, older.root, older.key, begin); err != nil {
				return nil, fmt.Errorf("generation %d: %w", i+1, err)
			}
		}
		s.generations = append(s.generations, g)
	}
	return s, nil
}

// newStranger makes a CA of one generation with the subject and the validity of
// root and a key of its own.
func newStranger(root *x509.Certificate) (*succession, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	template := *root
	if template.SubjectKeyId, err = pki.KeyID(key.Public()); err != nil {
		return nil, err
	}
	template.AuthorityKeyId, template.PublicKey = nil, key.Public()
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("a stranger's root: %w", err)
	}
	fake, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &succession{generations: []generation{{key: key, root: fake}}}, nil
}

func (s *succession) of(number int) generation { return s.generations[number-1] }

// authority returns the CA as it is when the given generation signs.
func (s *succession) authority(number int, now time.Time) *pki.Authority {
	g := s.of(number)
	a := &pki.Authority{
		Issuer:    pki.Issuer{Certificate: g.root},
		Key:       g.key,
		Anchors:   []*x509.Certificate{g.root},
		SignUntil: g.root.NotAfter,
	}
	for n := number; n > 1 && number-n < maxCrosses; n-- {
		cross := s.of(n).cross
		if len(a.Ending) > 0 || now.After(cross.NotAfter) {
			a.Ending = append(a.Ending, cross)
			continue
		}
		a.Chain = append(a.Chain, cross)
		a.Anchors = append(a.Anchors, s.of(n-1).root)
	}
	a.Bundle = pki.NewBundle(a.Anchors...)
	return a
}

// reaches reports whether a client that holds the root of one generation has to
// verify what another signs. It is the promise, in other words than authority's:
// every root that has not expired and is of this generation or of one of the
// three before it.
func (s *succession) reaches(signing, root int, now time.Time) bool {
	return root <= signing && signing-root <= maxCrosses && !now.After(s.of(root).root.NotAfter)
}
