package pki_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

const day = 24 * time.Hour

func TestUsageDefect(t *testing.T) {
	small := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537} // FIPS 140 forbids to make such keys
	for name, tt := range map[string]struct {
		leaf x509.Certificate
		want string
	}{
		"no usages":            {x509.Certificate{}, ""},
		"of a server":          {x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}, ""},
		"RSA key exchange":     {x509.Certificate{KeyUsage: x509.KeyUsageKeyEncipherment}, ""},
		"of a CA":              {x509.Certificate{KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}, "its key usages do not include digitalSignature"},
		"any purpose":          {x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}, "its extended key usages do not include serverAuth"},
		"an unknown purpose":   {x509.Certificate{UnknownExtKeyUsage: []asn1.ObjectIdentifier{{1, 2, 3}}}, "its extended key usages do not include serverAuth"},
		"a small RSA key":      {x509.Certificate{PublicKey: small}, "its RSA key has 1024 bits: must have at least 2048"},
		"an RSA key as issued": {x509.Certificate{PublicKey: newKey(t, pki.RSA2048).Public()}, ""},
	} {
		assert.Equal(t, tt.want, pki.UsageDefect(&tt.leaf), name)
	}
}

func TestRenewBy(t *testing.T) {
	for lifetime, before := range map[time.Duration]time.Duration{90 * day: 9 * day, 5 * day: day, day: 6 * time.Hour} {
		assert.Equal(t, start.Add(-before), pki.RenewBy(lifetime, start), "%s", lifetime)
	}
}

// TestVerifiedBy: which set of roots counts, and in which period.
func TestVerifiedBy(t *testing.T) {
	root, other := newRoot(t, 1, clusterOnly), newRoot(t, 2, clusterOnly)
	between := authority{key: newKey(t, pki.ECDSAP256)}
	of := func(subject pkix.Name, key crypto.Signer, by authority, from, until time.Duration) *x509.Certificate {
		serial, err := pki.NewSerial()
		require.NoError(t, err)
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, Subject: subject, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
			NotBefore: start.Add(from), NotAfter: start.Add(until),
		}, by.cert, key.Public(), by.key)
		require.NoError(t, err)
		cert, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return cert
	}
	certify := func(by authority, from, until time.Duration) *x509.Certificate {
		return of(pkix.Name{CommonName: "Intermediate"}, between.key, by, from, until)
	}
	cross := of(root.cert.Subject, root.key, other, -20*day, -10*day) // has expired
	laterRoot := of(root.cert.Subject, root.key, root, 2*day, 100*day)
	endedRoot := of(root.cert.Subject, root.key, root, -20*day, 5*day)
	usual, ended, later := certify(root, 0, 100*day), certify(root, -20*day, -10*day), certify(root, 2*day, 100*day)
	short, crossed := certify(root, 0, 10*day), certify(other, day, 20*day)
	between.cert = usual
	leaf := between.leaf(t, []string{"web.shop.svc"}) // 30 days from start
	period := func(from, until time.Duration) pki.Period {
		return pki.Period{From: start.Add(from), Until: start.Add(until)}
	}
	sets := func(roots ...*x509.Certificate) (out []*x509.CertPool) {
		for _, c := range roots {
			var pool *x509.CertPool
			if c != nil {
				pool = x509.NewCertPool()
				pool.AddCert(c)
			}
			out = append(out, pool)
		}
		return out
	}
	for name, tt := range map[string]struct {
		sets  []*x509.CertPool
		chain []*x509.Certificate
		at    time.Duration
		set   int
		want  pki.Period
	}{
		"the second set":                      {sets(other.cert, root.cert), []*x509.Certificate{usual}, day, 1, period(0, 30*day)},
		"the first set is nil":                {sets(nil, root.cert), []*x509.Certificate{usual}, day, 1, period(0, 30*day)},
		"the leaf has expired":                {sets(root.cert), []*x509.Certificate{usual}, 40 * day, 0, period(0, 30*day)},
		"the leaf is not valid yet":           {sets(root.cert), []*x509.Certificate{usual}, -day, 0, period(0, 30*day)},
		"the chain ends first":                {sets(root.cert), []*x509.Certificate{short}, day, 0, period(0, 10*day)},
		"the chain has ended":                 {sets(root.cert), []*x509.Certificate{short}, 11 * day, 0, period(0, 10*day)},
		"the chain begins later":              {sets(root.cert), []*x509.Certificate{later}, day, 0, period(2*day, 30*day)},
		"of two chains the longer":            {sets(root.cert), []*x509.Certificate{short, usual}, day, 0, period(0, 30*day)},
		"two chains together":                 {sets(root.cert, other.cert), []*x509.Certificate{short, crossed}, 5 * day, 0, period(0, 10*day)},
		"a set that accepts it now":           {sets(root.cert, other.cert), []*x509.Certificate{short, crossed}, 15 * day, 1, period(day, 20*day)},
		"unknown: the chain ends":             {sets(other.cert), []*x509.Certificate{short}, day, -1, period(0, 10*day)},
		"unknown: the longest issuer":         {nil, []*x509.Certificate{ended, short}, day, -1, period(0, 10*day)},
		"unknown: it ended before":            {sets(root.cert), []*x509.Certificate{ended}, day, -1, period(0, -10*day)},
		"unknown: the issuer of a root":       {nil, []*x509.Certificate{usual, cross}, day, -1, period(0, 30*day)},
		"the root has expired":                {sets(endedRoot), []*x509.Certificate{usual}, 10 * day, -1, period(0, 5*day)},
		"the root is not valid yet":           {sets(laterRoot), []*x509.Certificate{usual}, day, -1, period(2*day, 30*day)},
		"the root is valid":                   {sets(laterRoot), []*x509.Certificate{usual}, 2 * day, 0, period(2*day, 30*day)},
		"the root expires":                    {sets(endedRoot), []*x509.Certificate{usual}, day, 0, period(0, 5*day)},
		"unknown: roots do not count":         {nil, []*x509.Certificate{usual, root.cert}, day, -1, period(0, 30*day)},
		"unknown: others' certificates, too":  {nil, []*x509.Certificate{other.cert, leaf}, day, -1, period(0, 30*day)},
		"a certificate beside the chain ends": {sets(root.cert), []*x509.Certificate{usual, ended}, day, 0, period(0, 30*day)},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := pki.VerifiedBy(tt.sets, leaf, tt.chain, start.Add(tt.at))
			assert.Equal(t, tt.set, got.Set)
			assert.Equal(t, tt.want, got.Period)
		})
	}
}
