package signertest

import (
	"crypto"
	"crypto/x509"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Ladder is a CA of several generations, each cross-signed by the one before and
// ending 100 days after it.
type Ladder struct {
	Keys           []crypto.Signer
	Roots, Crosses []*x509.Certificate // the first cross is nil
}

// NewLadder makes a generation for each of the constraints.
func NewLadder(t require.TestingT, constraints ...pki.Constraints) Ladder {
	var l Ladder
	for i, c := range constraints {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		require.NoError(t, err)
		root, err := pki.NewRoot(key, i+1, c, Epoch.Add(-10*Day), Epoch.Add(time.Duration(i+1)*100*Day))
		require.NoError(t, err)
		var cross *x509.Certificate
		if i > 0 {
			cross, err = pki.NewCross(root, l.Roots[i-1], l.Keys[i-1], Epoch.Add(-10*Day))
			require.NoError(t, err)
		}
		l.Keys, l.Roots, l.Crosses = append(l.Keys, key), append(l.Roots, root), append(l.Crosses, cross)
	}
	return l
}

// Generations makes n that permit what a CA does by default.
func Generations(t require.TestingT, n int) Ladder {
	constraints := make([]pki.Constraints, n)
	for i := range constraints {
		constraints[i] = ClusterNames
	}
	return NewLadder(t, constraints...)
}

// Issuer returns generation n, from 1, as it is at a time.
func (l Ladder) Issuer(n int, now time.Time) pki.Issuer {
	issuer := pki.Issuer{Certificate: l.Roots[n-1]}
	for i := n; i > 1 && i > n-3; i-- {
		if cross := l.Crosses[i-1]; len(issuer.Ending) > 0 || now.After(cross.NotAfter.Add(-2*time.Hour)) {
			issuer.Ending = append(issuer.Ending, cross)
			issuer.Shorten = pki.Window{From: cross.NotAfter.Add(-2 * time.Hour), Until: cross.NotAfter.Add(-time.Hour)}
		} else {
			issuer.Chain = append(issuer.Chain, cross)
		}
	}
	return issuer
}

// At returns the CA at a time, with generation n signing.
func (l Ladder) At(now time.Time, n int) *pki.Authority {
	ca := &pki.Authority{Issuer: l.Issuer(n, now), Key: l.Keys[n-1], Bundle: pki.NewBundle(l.Roots[:n]...), SignUntil: l.Roots[n-1].NotAfter}
	for i := n; i >= 1; i-- {
		if i < n {
			ca.Older = append(ca.Older, l.Issuer(i, now))
		}
		if !now.After(l.Roots[i-1].NotAfter) && i >= n-3 {
			ca.Anchors = append(ca.Anchors, l.Roots[i-1])
		}
	}
	return ca
}
