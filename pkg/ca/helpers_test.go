package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// start is when everything in these tests begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	day         = 24 * time.Hour
	maxDuration = 90 * day
)

var clusterOnly = pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}.Normalize()

// situation is what a signer with the default flags sees at start.
func situation(data map[string][]byte) Situation {
	return Situation{
		Parameters: Parameters{
			Constraints: clusterOnly, Domain: "cluster.local", MaxDuration: maxDuration,
			CADuration: DefaultCADuration, Soak: DefaultSoak, Reissue: DefaultReissue, RefusalGrace: DefaultRefusalGrace,
		},
		Secret: data, Now: start,
	}
}

// first is the state of a CA that was made at start.
func first(t require.TestingT) State {
	return applied(t, situation(nil))
}

// applied decides and takes the step that was decided.
func applied(t require.TestingT, o Situation) State {
	s, _, err := Decide(o).Apply(o)
	require.NoError(t, err)
	return s
}

// generations is a CA with generations from to to, of which signing signs; those
// before it have lost their keys.
func generations(t require.TestingT, from, to, signing int) State {
	s := State{Signing: signing}
	var keys []Generation // with all keys
	for n := 1; n <= to; n++ {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		require.NoError(t, err)
		begin := start.Add(time.Duration(n) * day)
		root, err := pki.NewRoot(key, n, clusterOnly, begin, begin.Add(DefaultCADuration))
		require.NoError(t, err)
		g := Generation{Number: n, Domain: "cluster.local", Root: root, Key: key, MadeAt: begin, SignsSince: begin, UsedUntil: begin.Add(maxDuration)}
		if n > 1 {
			before := keys[n-2]
			g.Cross, err = pki.NewCross(root, before.Root, before.Key, begin)
			require.NoError(t, err)
		}
		keys = append(keys, g)
	}
	for _, g := range keys[from-1:] {
		if g.Number < signing {
			g.Key = nil
		}
		if g.Number > signing {
			g.SignsSince, g.UsedUntil = time.Time{}, time.Time{}
		}
		s.Generations = append(s.Generations, g)
	}
	return s
}

func secretData(t require.TestingT, s State) map[string][]byte {
	data, err := EncodeState(s)
	require.NoError(t, err)
	return data
}

func encodedKey(t require.TestingT, g Generation) []byte {
	data, err := pki.EncodeKey(g.Key)
	require.NoError(t, err)
	return data
}

// leafOf returns a leaf that the authority's key signed.
func leafOf(t require.TestingT, a *pki.Authority, now time.Time) *x509.Certificate {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"web.shop.svc"}, NotBefore: pki.NotBefore(now), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.Certificate, key.Public(), a.Key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return leaf
}

// sec1 returns an EC key as OpenSSL's ecparam writes it.
func sec1(t require.TestingT, key crypto.Signer) []byte {
	der, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
