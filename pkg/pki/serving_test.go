package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestUsagesOfAServingCertificate(t *testing.T) {
	const signature, encipherment = x509.KeyUsageDigitalSignature, x509.KeyUsageKeyEncipherment
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for want, leaf := range map[string]*x509.Certificate{
		"":                              {KeyUsage: signature, ExtKeyUsage: server},
		"a CA certificate":              {KeyUsage: signature, ExtKeyUsage: server, IsCA: true},
		"key usage is 0x5, must be 0x1": {KeyUsage: signature | encipherment, ExtKeyUsage: server},
		"[serverAuth clientAuth] []":    {KeyUsage: signature, ExtKeyUsage: append(server, x509.ExtKeyUsageClientAuth)},
		"[] [], must be":                {KeyUsage: signature},
		"[serverAuth] [1.2.3], must be": {KeyUsage: signature, ExtKeyUsage: server, UnknownExtKeyUsage: []asn1.ObjectIdentifier{{1, 2, 3}}},
	} {
		err := pki.CheckUsages(leaf, pki.ECDSAP256)
		if want == "" {
			require.NoError(t, err)
			require.ErrorContains(t, pki.CheckUsages(leaf, pki.RSA2048), "key usage is 0x1, must be 0x5")
			leaf.KeyUsage |= encipherment
			require.NoError(t, pki.CheckUsages(leaf, pki.RSA2048))
			continue
		}
		assert.ErrorContains(t, err, want)
	}
}

func TestKindsOfNames(t *testing.T) {
	name := func(class, tag int) asn1.RawValue { return asn1.RawValue{Class: class, Tag: tag, Bytes: []byte("web")} }
	dns, ip := name(asn1.ClassContextSpecific, 2), name(asn1.ClassContextSpecific, 7)
	named := func(names ...asn1.RawValue) []byte {
		value, err := asn1.Marshal(names)
		require.NoError(t, err)
		return value
	}
	for _, c := range []struct {
		value []byte
		want  string
	}{
		{named(dns, ip), ""},
		{named(), ""},
		{append(named(dns), 0), "malformed"},
		{[]byte("web"), "malformed"},
		{named(dns, name(asn1.ClassContextSpecific, 0)), ": otherName"},
		{named(name(asn1.ClassContextSpecific, 6)), ": uniformResourceIdentifier"},
		{named(name(asn1.ClassContextSpecific, 8)), ": registeredID"},
		{named(name(asn1.ClassContextSpecific, 9)), "of an unknown kind"},
		{named(name(asn1.ClassApplication, 2)), "of an unknown kind"},
	} {
		other := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 18}, Value: []byte("another extension")}
		err := pki.CheckKindsOfNames([]pkix.Extension{other, {Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: c.value}})
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, c.want)
		}
	}
}

func TestNamesAreSorted(t *testing.T) {
	dns, ips := pki.NamesOf(&x509.Certificate{
		DNSNames:    []string{"b", "a"},
		IPAddresses: []net.IP{net.ParseIP("2001:db8::1"), net.ParseIP("10.0.0.2"), {1, 2, 3}, net.IPv4(10, 0, 0, 1)},
	})
	assert.Equal(t, []string{"a", "b"}, dns)
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("2001:db8::1")}, ips)
}

func TestRootsOfOthersSayThatTheyAreNoCA(t *testing.T) {
	root := newRoot(t, 1, clusterOnly)
	leaf := root.leaf(t, []string{"web.shop.svc"})
	roots, err := pki.ParseRoots(pki.EncodeCertificates(root.cert), pki.MaxCertificates)
	require.NoError(t, err)
	assert.Equal(t, []*x509.Certificate{root.cert}, roots.Certificates())
	_, err = pki.ParseRoots(pki.EncodeCertificates(root.cert, leaf), pki.MaxCertificates)
	require.ErrorContains(t, err, "certificate 2 (")
	_, err = pki.ParseRoots([]byte("x"), pki.MaxCertificates)
	require.Error(t, err)
	old, err := pki.ParseRoots(pki.EncodeCertificates(versionOne(t, root.cert)), pki.MaxCertificates)
	require.NoError(t, err, "of version 1, which has no extension to say it")
	assert.Len(t, old.Certificates(), 1)
}

// versionOne returns the certificate without what version 1 does not have: version and extensions.
func versionOne(t *testing.T, cert *x509.Certificate) *x509.Certificate {
	t.Helper()
	var outer, inner []asn1.RawValue
	_, err := asn1.Unmarshal(cert.Raw, &outer)
	require.NoError(t, err)
	_, err = asn1.Unmarshal(outer[0].FullBytes, &inner)
	require.NoError(t, err)
	inner = slices.DeleteFunc(inner, func(v asn1.RawValue) bool { return v.Class == asn1.ClassContextSpecific })
	tbs, err := asn1.Marshal(inner)
	require.NoError(t, err)
	outer[0] = asn1.RawValue{FullBytes: tbs}
	der, err := asn1.Marshal(outer)
	require.NoError(t, err)
	old, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	require.Equal(t, 1, old.Version)
	return old
}
