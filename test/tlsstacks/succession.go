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

// maxCrosses is the maximum number of served cross-certificates. Older roots are not reached.
const maxCrosses = 3

// generation is a key of a CA with its certificates.
type generation struct {
	key   crypto.Signer
	root  *x509.Certificate
	cross *x509.Certificate // by the generation before; nil for the first
}

// succession is a CA with all its generations; number n is at n-1.
type succession struct {
	name        string // part of file names; "" for the usual CA
	generations []generation
}

// newSuccession creates a CA whose generations expire after the given times. All are valid already.
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

// newUnknownCA creates a CA of one generation with the subject and the validity of root, and its own key.
func newUnknownCA(root *x509.Certificate) (*succession, error) {
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
		return nil, fmt.Errorf("the root of an unknown CA: %w", err)
	}
	fake, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &succession{generations: []generation{{key: key, root: fake}}}, nil
}

func (s *succession) of(number int) generation { return s.generations[number-1] }

// authority returns the state of the CA in which the given generation signs.
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

// reaches reports whether a client with the root of one generation must accept certificates of another.
// This is the guarantee, independent of the code of authority: unexpired roots of the signing generation
// and of the three before it are reached.
func (s *succession) reaches(signing, root int, now time.Time) bool {
	return root <= signing && signing-root <= maxCrosses && !now.After(s.of(root).root.NotAfter)
}
