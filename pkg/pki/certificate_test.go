package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/pki"
)

// certificate returns a certificate with the raw bytes. RenewAt uses only these and the
// validity, so it need not be signed.
func certificate(raw []byte, notBefore time.Time, lifetime time.Duration) *x509.Certificate {
	return &x509.Certificate{Raw: raw, NotBefore: notBefore, NotAfter: notBefore.Add(lifetime)}
}

func numbered(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func TestRenewAtBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lifetime := time.Duration(rapid.Int64Range(1, 3*8760*3600).Draw(t, "seconds")) * time.Second
		notBefore := start.Add(time.Duration(rapid.Int64Range(-1e8, 1e8).Draw(t, "start")) * time.Second)
		cert := certificate(rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "der"), notBefore, lifetime)

		at := pki.RenewAt(cert)
		rest := cert.NotAfter.Sub(at)
		assert.GreaterOrEqual(t, rest, 5*time.Minute, "less than 5 minutes are left")
		assert.GreaterOrEqual(t, rest, lifetime/10, "less than a tenth is left")
		if lifetime < 50*time.Minute { // below, the 5 minutes decide
			return
		}
		assert.GreaterOrEqual(t, at.Sub(notBefore), 7*(lifetime/10), "renewed in the first seven tenths")
		assert.LessOrEqual(t, at.Sub(notBefore), 9*(lifetime/10)+9*time.Nanosecond)
	})
}

// Invariant 4: a pure function of the certificate's bytes.
// What the API server accepts of BeginRefreshAt, whatever the certificate's bytes are.
func TestRefreshAtIsWithinItsBounds(t *testing.T) {
	for _, lifetime := range []time.Duration{20 * time.Minute, 25 * time.Minute, time.Hour, 24 * time.Hour, 91 * 24 * time.Hour} {
		for i := range 200 {
			cert := certificate(numbered(i), start, lifetime)
			at := pki.RefreshAt(cert)
			assert.False(t, at.Before(start.Add(10*time.Minute)), "%s: %s", lifetime, at)
			assert.False(t, at.After(cert.NotAfter.Add(-10*time.Minute)), "%s: %s", lifetime, at)
			assert.Equal(t, at.Truncate(time.Second), at)
			if lifetime >= 2*time.Hour {
				assert.Equal(t, pki.RenewAt(cert).Truncate(time.Second), at)
			}
		}
	}
}

func TestRenewAtIsAFunctionOfTheBytes(t *testing.T) {
	root := newRoot(t, 1, clusterOnly)
	leaf := root.leaf(t, []string{"web.shop.svc"})
	again, err := pki.ParseCertificates(pki.EncodeCertificates(leaf))
	require.NoError(t, err)
	assert.Equal(t, pki.RenewAt(leaf), pki.RenewAt(again[0]))
	other := root.leaf(t, []string{"web.shop.svc"})
	assert.NotEqual(t, pki.RenewAt(leaf), pki.RenewAt(other), "two certificates with equal names and validity are renewed apart")
}

// Exact times for exact bytes, which no release may move.
func TestRenewAtIsPinned(t *testing.T) {
	cases := []struct {
		raw      []byte
		lifetime time.Duration
		fraction float64 // of the lifetime, after NotBefore
	}{
		// SHA-256("") begins e3b0c44298fc1c14, as a fraction of 2^64 0.88941599…
		{nil, 1000 * time.Hour, 0.7 + 0.2*0.8894159948913374},
		// SHA-256("abc") begins ba7816bf8f01cfea
		{[]byte("abc"), time.Hour, 0.7 + 0.2*0.7283949105904022},
		// less than 50 minutes: 5 minutes before the end
		{nil, 20 * time.Minute, 0.75},
	}
	for _, c := range cases {
		got := pki.RenewAt(certificate(c.raw, start, c.lifetime)).Sub(start)
		assert.InDelta(t, float64(c.lifetime)*c.fraction, float64(got), float64(time.Millisecond), "lifetime %s: %s", c.lifetime, got)
	}
}

func TestRenewAtNeverBunches(t *testing.T) {
	const n = 10_000
	for _, lifetime := range []time.Duration{time.Hour, 720 * time.Hour, 2160 * time.Hour} {
		var (
			window = lifetime / 5
			counts [20]int
			times  = make([]time.Time, 0, n)
		)
		for i := range n {
			at := pki.RenewAt(certificate(numbered(i), start, lifetime))
			times = append(times, at)
			offset := at.Sub(start.Add(7 * lifetime / 10))
			counts[min(int(offset*20/window), 19)]++
		}
		for i, count := range counts {
			assert.InDelta(t, n/20, count, 110, "lifetime %s, twentieth %d of the window", lifetime, i) // 5 standard deviations
		}
		slices.SortFunc(times, time.Time.Compare)
		// Evenly spread, a ten-thousandth of the window holds one.
		for i := 12; i < n; i++ {
			require.Greater(t, times[i].Sub(times[i-12]), window/n, "lifetime %s: 13 renewals within a ten-thousandth of the window", lifetime)
		}
	}
}

func TestNotBefore(t *testing.T) {
	now := start.Add(1500 * time.Millisecond).In(time.FixedZone("east", 3600))
	notBefore := pki.NotBefore(now)
	assert.Equal(t, start.Add(time.Second-5*time.Minute), notBefore, "whole seconds, UTC, backdated")
	assert.Equal(t, start.Add(time.Second), pki.IssuedAt(&x509.Certificate{NotBefore: notBefore}))
}

func TestCertificatesRoundTrip(t *testing.T) {
	a, b := newRoot(t, 1, clusterOnly).cert, newRoot(t, 2, clusterOnly).cert
	got, err := pki.ParseCertificates(pki.EncodeCertificates(b, a))
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.True(t, got[0].Equal(b), "the order stays")
	assert.True(t, got[1].Equal(a))
}

func TestParseCertificatesRefuses(t *testing.T) {
	root := newRoot(t, 1, clusterOnly)
	good := string(pki.EncodeCertificates(root.cert))
	key, err := pki.EncodeKey(root.key)
	require.NoError(t, err)
	notDER := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("garbage")}))
	cases := []struct{ name, data, want string }{
		{"nothing", "", "no certificate"},
		{"white space", " \n\t", "no certificate"},
		{"text", "hello", "certificate 1: not PEM"},
		{"text before", "hello\n" + good, "certificate 1: not PEM"},
		{"text between", good + "hello\n" + good, "certificate 2: not PEM"},
		{"text after", good + "hello", "certificate 2: not PEM"},
		{"cut off", good[:len(good)/2], "certificate 1: damaged PEM"},
		{"a flipped character", strings.Replace(good, "M", "*", 1), "certificate 1: damaged PEM"},
		{"a key", string(key), `certificate 1: PEM block is a "PRIVATE KEY"`},
		{"a key after", good + string(key), `certificate 2: PEM block is a "PRIVATE KEY"`},
		{"a damaged block before", "-----BEGIN CERTIFICATE-----\n" + good, "certificate 1: damaged PEM"},
		{"PEM of garbage", notDER, "certificate 1: x509"},
		{"headers", strings.Replace(good, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1), "certificate 1: PEM headers"},
		{"an RSA key of 8200 bits", good + withModulus(t, 8200), "certificate 2: RSA key of 8200 bits: must be at most 8192"},
	}
	for _, c := range cases {
		certs, err := pki.ParseCertificates([]byte(c.data))
		assert.ErrorContains(t, err, c.want, c.name)
		assert.Nil(t, certs, c.name)
	}
}

// withModulus returns a certificate in PEM with a random RSA modulus of the given size.
func withModulus(t *testing.T, bits uint) string {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestParseCertificatesOfAnythingNeverPanics(t *testing.T) {
	good := pki.EncodeCertificates(newRoot(t, 1, clusterOnly).cert)
	rapid.Check(t, func(t *rapid.T) {
		data := bytes.Clone(good)
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		if certs, err := pki.ParseCertificates(data); err == nil && len(certs) != 1 {
			t.Fatalf("%d certificates of one", len(certs))
		}
	})
}
