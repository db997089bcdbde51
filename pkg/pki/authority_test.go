package pki_test

import (
	"crypto/x509"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestPermits(t *testing.T) {
	cluster := &x509.Certificate{PermittedDNSDomains: []string{"svc", "cluster.local"}}
	foreign := &x509.Certificate{ExcludedDNSDomains: []string{".internal.example.com"}}
	for name, want := range map[string][2]bool{
		"web.shop.svc":                 {true, true},
		"*.web.shop.svc":               {true, true},
		"svc":                          {true, true},
		"websvc":                       {false, true},
		"web.shop.svc.cluster.local":   {true, true},
		"WEB.shop.SVC":                 {true, true},
		"a.internal.example.com":       {false, false},
		"internal.example.com":         {false, false},
		"example.com":                  {false, true},
		"web.shop.svc.cluster.local.x": {false, true},
	} {
		assert.Equal(t, want, [2]bool{pki.PermitsDNS(cluster, name), pki.PermitsDNS(foreign, name)}, name)
	}
	everything := &pki.Authority{Issuer: pki.Issuer{Certificate: &x509.Certificate{}}}
	assert.True(t, everything.Permits("example.com"))
	narrowed := *everything
	narrowed.Anchors = []*x509.Certificate{{}, cluster}
	assert.False(t, narrowed.Permits("example.com"), "one root that does not permit it is enough")
	assert.True(t, narrowed.Permits("web.shop.svc"))
	narrowed = *everything
	narrowed.Chain = []*x509.Certificate{cluster}
	assert.False(t, narrowed.Permits("example.com"), "and so is one certificate between")
}

func TestPermitsIP(t *testing.T) {
	_, v4, _ := net.ParseCIDR("10.0.0.0/8")
	_, all4, _ := net.ParseCIDR("0.0.0.0/0")
	_, all6, _ := net.ParseCIDR("::/0")
	ten, other, six := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	permitted := &x509.Certificate{PermittedIPRanges: []*net.IPNet{v4}}
	none := &x509.Certificate{ExcludedIPRanges: []*net.IPNet{all4, all6}}
	only4 := &x509.Certificate{ExcludedIPRanges: []*net.IPNet{all6}}
	for ip, want := range map[netip.Addr][3]bool{
		ten:   {true, false, true},
		other: {false, false, true},
		six:   {false, false, false},
	} {
		assert.Equal(t, want, [3]bool{pki.PermitsIP(permitted, ip), pki.PermitsIP(none, ip), pki.PermitsIP(only4, ip)}, ip)
	}
	a := &pki.Authority{Issuer: pki.Issuer{Certificate: &x509.Certificate{}}, Anchors: []*x509.Certificate{none}}
	assert.False(t, a.PermitsAddr(ten))
	a.Anchors = []*x509.Certificate{permitted}
	assert.True(t, a.PermitsAddr(ten))
}

func TestNothingIsSignedThatOutlivesTheCA(t *testing.T) {
	until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := &pki.Authority{SignUntil: until}
	assert.NoError(t, a.MaySign(until))
	assert.ErrorContains(t, a.MaySign(until.Add(time.Second)), "nothing that expires after 2026-01-01T00:00:00Z")
}

func TestWindowSpreads(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := pki.Window{From: from, Until: from.Add(10 * time.Minute)}
	var minutes [10]int
	for i := range 10000 {
		at := w.At([]byte{byte(i), byte(i >> 8)})
		assert.Equal(t, at, w.At([]byte{byte(i), byte(i >> 8)}))
		minutes[int(at.Sub(from)/time.Minute)]++
	}
	for _, n := range minutes {
		assert.InDelta(t, 1000, n, 150)
	}
	assert.Equal(t, from, pki.Window{From: from, Until: from.Add(-time.Hour)}.At([]byte("x")), "a window that is over when it begins")
}
