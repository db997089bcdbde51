package signer

import (
	"crypto"
	"crypto/x509"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// ladder is a CA of several generations, each cross-signed by the one before and
// ending 100 days after it.
type ladder struct {
	keys           []crypto.Signer
	roots, crosses []*x509.Certificate // the first cross is nil
}

// newLadder makes a generation for each of the constraints.
func newLadder(t require.TestingT, constraints ...pki.Constraints) ladder {
	var l ladder
	for i, c := range constraints {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		require.NoError(t, err)
		root, err := pki.NewRoot(key, i+1, c, epoch.Add(-10*day), epoch.Add(time.Duration(i+1)*100*day))
		require.NoError(t, err)
		var cross *x509.Certificate
		if i > 0 {
			cross, err = pki.NewCross(root, l.roots[i-1], l.keys[i-1], epoch.Add(-10*day))
			require.NoError(t, err)
		}
		l.keys, l.roots, l.crosses = append(l.keys, key), append(l.roots, root), append(l.crosses, cross)
	}
	return l
}

// generations makes n that permit what a CA does by default.
func generations(t require.TestingT, n int) ladder {
	constraints := make([]pki.Constraints, n)
	for i := range constraints {
		constraints[i] = clusterNames
	}
	return newLadder(t, constraints...)
}

// issuer returns generation n, from 1, as it is at a time.
func (l ladder) issuer(n int, now time.Time) pki.Issuer {
	issuer := pki.Issuer{Certificate: l.roots[n-1]}
	for i := n; i > 1 && i > n-3; i-- {
		if cross := l.crosses[i-1]; len(issuer.Ending) > 0 || now.After(cross.NotAfter.Add(-2*time.Hour)) {
			issuer.Ending = append(issuer.Ending, cross)
			issuer.Shorten = pki.Window{From: cross.NotAfter.Add(-2 * time.Hour), Until: cross.NotAfter.Add(-time.Hour)}
		} else {
			issuer.Chain = append(issuer.Chain, cross)
		}
	}
	return issuer
}

// at returns the CA at a time, with generation n signing.
func (l ladder) at(now time.Time, n int) *pki.Authority {
	ca := &pki.Authority{Issuer: l.issuer(n, now), Key: l.keys[n-1], Bundle: pki.NewBundle(l.roots[:n]...), SignUntil: l.roots[n-1].NotAfter}
	for i := n; i >= 1; i-- {
		if i < n {
			ca.Older = append(ca.Older, l.issuer(i, now))
		}
		if !now.After(l.roots[i-1].NotAfter) && i >= n-3 {
			ca.Anchors = append(ca.Anchors, l.roots[i-1])
		}
	}
	return ca
}
