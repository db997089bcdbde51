package ca

import (
	"crypto/x509"
	"encoding/asn1"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func pathLength(n int) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = n, n == 0 }
}

// An imported CA must be able to issue server certificates: otherwise the error would
// only appear when it signs, and nothing could be issued.
func TestImportsThatCouldNotServe(t *testing.T) {
	under := func(root authority, change ...func(*x509.Certificate)) map[string][]byte {
		return importOf(t, root, foreignCA(t, "Example Issuing CA", &root, change...))
	}
	clientsOnly := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	unknownToo := func(c *x509.Certificate) {
		clientsOnly(c)
		c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3}}
	}
	one := foreignCA(t, "Example Root", nil)
	two := foreignCA(t, "Example Policy CA 1", &one)
	three := foreignCA(t, "Example Policy CA 2", &two)
	for name, c := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"a root with as many known usages as unknown": {importOf(t, foreignCA(t, "Example Root", nil, unknownToo)), "usage"},
		"too many intermediates":                      {importOf(t, one, foreignCA(t, "Example Issuing CA", &three), three, two), "3 intermediates: must be at most 2"},
		"a root that allows no intermediate":          {under(foreignCA(t, "Example Root", nil, pathLength(0))), "path length"},
		"an intermediate that is for clients only":    {under(foreignCA(t, "Example Root", nil), clientsOnly), "usage"},
		"a root that is for clients only":             {importOf(t, foreignCA(t, "Example Root", nil, clientsOnly)), "usage"},
		"a root that begins later":                    {under(foreignCA(t, "Example Root", nil, func(c *x509.Certificate) { c.NotBefore = start.Add(day) })), "is not valid before"},
		"a root that ends first":                      {under(foreignCA(t, "Example Root", nil, func(c *x509.Certificate) { c.NotAfter = start.Add(364 * day) })), "it expires at 2027-03-01T12:00:00Z, after its issuer, which expires at 2027-02-28T12:00:00Z"},
		"a root that is for other names":              {under(foreignCA(t, "Example Root", nil, func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} })), `do not permit "svc"`},
		"a root with a post-quantum key":              {importOf(t, foreignCAWith(t, pki.MLDSA44, "Example Root", nil)), "its key is ML-DSA"},
		"a post-quantum root of another CA":           {under(foreignCAWith(t, pki.MLDSA65, "Example Root", nil)), "Example Root: its key is ML-DSA"},
		"a root for names of one half of the cluster": {importOf(t, foreignCA(t, "Example Root", nil, func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"svc"} })), `do not permit "cluster.local"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			imported, err := ParseImport(c.data)
			require.NoError(t, err)
			s.Import = &imported
			d := s.take("")
			require.Len(t, d.Warnings, 1)
			assert.Equal(t, api.CAImportInvalid, d.Warnings[0].Reason)
			assert.Contains(t, d.Warnings[0].Message, c.want)
		})
	}
}

func TestAsManyIntermediatesAsMayBe(t *testing.T) {
	root := foreignCA(t, "Example Root", nil)
	policy := foreignCA(t, "Example Policy CA", &root)
	imported, err := ParseImport(importOf(t, root, foreignCA(t, "Example Issuing CA", &policy), policy))
	require.NoError(t, err)
	assert.NoError(t, imported.check(situation(nil).Parameters, start))
}

// A name is missing if any certificate of the CA's path does not permit it.
func TestWhatACADoesNotPermit(t *testing.T) {
	open := foreignCA(t, "Open Root", nil)
	closed := foreignCA(t, "Closed Root", nil, func(c *x509.Certificate) {
		c.PermittedIPRanges = []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(32, 32)}}
	})
	below := func(root authority, change ...func(*x509.Certificate)) Generation {
		return Generation{Root: root.cert, Intermediates: []*x509.Certificate{foreignCA(t, "Issuing CA", &root, change...).cert}}
	}
	noIPs := func(c *x509.Certificate) { c.PermittedIPRanges = closed.cert.PermittedIPRanges }
	wanted := pki.Constraints{PermittedDNS: []string{"svc"}, PermitIPs: true}
	assert.Empty(t, below(open).misses(wanted))
	assert.Equal(t, []string{"IP addresses"}, below(closed).misses(wanted))
	assert.Equal(t, []string{"IP addresses"}, below(open, noIPs).misses(wanted))
	assert.Empty(t, below(open, noIPs).misses(pki.Constraints{PermittedDNS: []string{"svc"}}))
}

// Under a path length, a key cannot sign a valid cross-certificate: the next generation
// has none, and every leaf verifies under each anchor.
func TestFollowingAnImportWithPathLengths(t *testing.T) {
	for name, c := range map[string]struct {
		root, issuing []func(*x509.Certificate)
		anchors       int
	}{
		"none":                {nil, nil, 3},
		"at the root":         {[]func(*x509.Certificate){pathLength(1)}, nil, 1},
		"at the intermediate": {nil, []func(*x509.Certificate){pathLength(0)}, 1},
		"a longer one":        {nil, []func(*x509.Certificate){pathLength(2)}, 1},
		"at both":             {[]func(*x509.Certificate){pathLength(1)}, []func(*x509.Certificate){pathLength(0)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			root := foreignCA(t, "Example Root", nil, c.root...)
			imported, err := ParseImport(importOf(t, root, foreignCA(t, "Example Issuing CA", &root, c.issuing...)))
			require.NoError(t, err)
			s := newScript(t)
			s.Import = &imported
			s.take(StepPrepare)
			s.promote()
			verified := func(anchors int) {
				t.Helper()
				a := s.state().authority(s.Situation)
				require.Len(t, a.Anchors, anchors)
				leaf := leafOf(t, a, s.Now)
				for _, anchor := range a.Anchors {
					assert.NoError(t, pki.VerifyServing(leaf, a.Chain, anchor, s.Now), anchor.Subject)
				}
			}
			verified(2)
			s.ask(api.RotateOverlap, "back")
			s.take(StepPrepare)
			s.promote()
			verified(c.anchors)
		})
	}
}
