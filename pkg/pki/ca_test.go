package pki_test

import (
	"bytes"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/skip"
)

func TestNewRoot(t *testing.T) {
	root := newRoot(t, 7, clusterOnly)
	id, err := pki.KeyID(root.key.Public())
	require.NoError(t, err)
	assert.Regexp(t, `^CN=servingcert CA 7 [0-9a-f]{8}$`, root.cert.Subject.String())
	assert.Equal(t, id, root.cert.SubjectKeyId)
	assert.Len(t, id, 20)
	assert.True(t, root.cert.IsCA)
	assert.Equal(t, -1, root.cert.MaxPathLen, "no path length: a ladder of cross-certificates fails under any")
	assert.Equal(t, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, root.cert.KeyUsage)
	assert.True(t, root.cert.PermittedDNSDomainsCritical)
	assert.Equal(t, []string{"cluster.local", "svc"}, root.cert.PermittedDNSDomains)
	assert.Equal(t, []string{"invalid"}, root.cert.PermittedEmailAddresses)
	assert.Equal(t, []string{"invalid"}, root.cert.PermittedURIDomains)
	assert.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, root.cert.ExtKeyUsage)
	assert.Empty(t, root.cert.ExcludedIPRanges, "Java fails on two certificates that exclude IPv4 and IPv6 ranges")
	assert.Equal(t, start, root.cert.NotBefore)
	assert.Equal(t, start.Add(3*year), root.cert.NotAfter)
	assert.NoError(t, root.cert.CheckSignatureFrom(root.cert))
	assert.NoError(t, pki.CheckCA(root.cert, root.key, start))

	other := newRoot(t, 7, clusterOnly)
	assert.NotEqual(t, root.cert.Subject.String(), other.cert.Subject.String(), "a subject of its own for each key")
	assert.NotEqual(t, root.cert.SerialNumber, other.cert.SerialNumber)
}

func TestNewRootRefusesToPermitEverything(t *testing.T) {
	_, err := pki.NewRoot(newKey(t, pki.ECDSAP256), 1, pki.Constraints{PermitIPs: true}, start, start.Add(year))
	assert.ErrorContains(t, err, "every name")
}

func TestConstraintsReadBack(t *testing.T) {
	for _, want := range []pki.Constraints{
		clusterOnly,
		{PermittedDNS: []string{"svc", "cluster.local"}, PermitIPs: true},
		{PermittedDNS: []string{"svc", "cluster.local", "apps.example.com", "svc"}},
	} {
		got := pki.ConstraintsOf(newRoot(t, 1, want).cert)
		assert.Equal(t, want.Normalize(), got)
	}
}

func TestSerials(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		serial, err := pki.NewSerial()
		require.NoError(t, err)
		assert.Positive(t, serial.Sign())
		assert.LessOrEqual(t, serial.BitLen(), 128)
		assert.False(t, seen[serial.String()])
		seen[serial.String()] = true
	}
}

// nameConstraintCases are leaves that a CA's constraints must accept, and others that
// they must reject.
var nameConstraintCases = []struct {
	name        string
	constraints pki.Constraints
	dnsNames    []string
	ips         []net.IP
	accepted    bool
}{
	{"a Service", clusterOnly, []string{"web.shop.svc", "web.shop.svc.cluster.local"}, nil, true},
	{"a headless Service", clusterOnly, []string{"*.web.shop.svc", "*.web.shop.svc.cluster.local"}, nil, true},
	{"a host outside", clusterOnly, []string{"example.com"}, nil, false},
	{"a host outside beside a Service", clusterOnly, []string{"web.shop.svc", "example.com"}, nil, false},
	{"a suffix that is no label", clusterOnly, []string{"web.shop.notsvc"}, nil, false},
	{"IPv4", clusterOnly, []string{"web.shop.svc"}, []net.IP{net.IPv4(10, 96, 0, 1)}, false},
	{"IPv6", clusterOnly, []string{"web.shop.svc"}, []net.IP{net.ParseIP("fd00::1")}, false},
	{"IPv4 permitted", pki.Constraints{PermittedDNS: clusterOnly.PermittedDNS, PermitIPs: true}, []string{"web.shop.svc"}, []net.IP{net.IPv4(10, 96, 0, 1)}, true},
	{"a permitted suffix", pki.Constraints{PermittedDNS: []string{"svc", "apps.example.com"}}, []string{"web.apps.example.com"}, nil, true},
	{"beside a permitted suffix", pki.Constraints{PermittedDNS: []string{"svc", "apps.example.com"}}, []string{"web.example.com"}, nil, false},
}

// otherLeaf is a leaf that no signer makes: with names of other types than DNS and IP,
// or for another purpose than serving.
type otherLeaf struct {
	name    string
	emails  []string
	uris    []string
	usages  []x509.ExtKeyUsage
	openssl string // what openssl says, as a pattern
}

func otherLeaves() []otherLeaf {
	serving := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return []otherLeaf{
		{"an e-mail address", []string{"a@example.com"}, nil, serving, "permitted subtree violation"},
		{"an e-mail address of a Service", []string{"a@web.shop.svc"}, nil, serving, "permitted subtree violation"},
		{"a URI", nil, []string{"https://example.com/x"}, serving, "permitted subtree violation"},
		{"a URI of a Service", nil, []string{"https://web.shop.svc/x"}, serving, "permitted subtree violation"},
		{"a SPIFFE ID", nil, []string{"spiffe://cluster.local/ns/shop/sa/web"}, serving, "permitted subtree violation"},
		{"for clients", nil, nil, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, "(?i)unsuitable certificate purpose|unsupported certificate purpose"},
		{"for code", nil, nil, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, "(?i)unsuitable certificate purpose|unsupported certificate purpose"},
	}
}

// signed returns the leaf under the CA.
func (o otherLeaf) signed(t *testing.T, a authority) *x509.Certificate {
	return a.leafWith(t, []string{"web.shop.svc"}, func(template *x509.Certificate) {
		template.EmailAddresses, template.ExtKeyUsage = o.emails, o.usages
		for _, text := range o.uris {
			uri, err := url.Parse(text)
			require.NoError(t, err)
			template.URIs = append(template.URIs, uri)
		}
	})
}

// The key of a CA that is made here can only make certificates for servers, with DNS
// names, under its root and under the previous one.
func TestOtherLeavesWithGo(t *testing.T) {
	generations, chain := ladder(t, 2)
	for _, o := range otherLeaves() {
		leaf := o.signed(t, generations[1])
		for i, trusted := range generations {
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			roots.AddCert(trusted.cert)
			between.AddCert(chain[0])
			_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: start.Add(time.Hour), KeyUsages: o.usages})
			assert.Error(t, err, "%s, trusted %d", o.name, i+1)
		}
	}
}

func TestOtherLeavesWithOpenSSL(t *testing.T) {
	openssl := lookOpenSSL(t)
	generations, chain := ladder(t, 2)
	for _, o := range otherLeaves() {
		leaf := o.signed(t, generations[1])
		purpose := "sslserver"
		if o.name == "for clients" {
			purpose = "sslclient" // for which the leaf would do
		}
		for i, trusted := range generations {
			out, err := openssl(t, trusted.cert, chain, leaf, "-purpose", purpose)
			require.Error(t, err, "%s, trusted %d", o.name, i+1)
			assert.Regexp(t, o.openssl, out, "%s, trusted %d", o.name, i+1)
		}
	}
}

func TestNameConstraintsWithGo(t *testing.T) {
	for _, c := range nameConstraintCases {
		t.Run(c.name, func(t *testing.T) {
			root := newRoot(t, 1, c.constraints)
			err := pki.VerifyServing(root.leaf(t, c.dnsNames, c.ips...), nil, root.cert, start.Add(time.Hour))
			if c.accepted {
				assert.NoError(t, err)
				return
			}
			var invalid x509.CertificateInvalidError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, x509.CANotAuthorizedForThisName, invalid.Reason)
		})
	}
}

func TestNameConstraintsWithOpenSSL(t *testing.T) {
	openssl := lookOpenSSL(t)
	for _, c := range nameConstraintCases {
		t.Run(c.name, func(t *testing.T) {
			root := newRoot(t, 1, c.constraints)
			out, err := openssl(t, root.cert, nil, root.leaf(t, c.dnsNames, c.ips...))
			if c.accepted {
				assert.NoError(t, err, out)
				return
			}
			require.Error(t, err, out)
			assert.Regexp(t, `(permitted|excluded) subtree violation`, out)
		})
	}
}

// lookOpenSSL returns "openssl verify" of a leaf with a chain under one root.
func lookOpenSSL(t *testing.T) func(t *testing.T, root *x509.Certificate, chain []*x509.Certificate, leaf *x509.Certificate, more ...string) (string, error) {
	skip.WithoutPrograms(t, "openssl")
	return func(t *testing.T, root *x509.Certificate, chain []*x509.Certificate, leaf *x509.Certificate, more ...string) (string, error) {
		dir := t.TempDir()
		write := func(name string, certs ...*x509.Certificate) string {
			file := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(file, pki.EncodeCertificates(certs...), 0o600))
			return file
		}
		args := []string{
			"verify", "-no-CApath", "-no-CAstore", "-purpose", "sslserver", "-x509_strict",
			"-attime", strconv.FormatInt(start.Add(time.Hour).Unix(), 10), "-CAfile", write("root.pem", root),
		}
		args = append(args, more...)
		if len(chain) > 0 {
			args = append(args, "-untrusted", write("chain.pem", chain...))
		}
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "openssl", append(args, write("leaf.pem", leaf))...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
}

func TestCheckCA(t *testing.T) {
	root := newRoot(t, 1, clusterOnly)
	leaf := root.leaf(t, []string{"web.shop.svc"})
	noSign := *root.cert
	noSign.KeyUsage = x509.KeyUsageDigitalSignature
	cases := []struct {
		name string
		cert *x509.Certificate
		now  time.Time
		want string
	}{
		{"first second", root.cert, start, ""},
		{"last second", root.cert, start.Add(3 * year), ""},
		{"too early", root.cert, start.Add(-time.Second), "not valid before 2026-03-01T12:00:00Z"},
		{"too late", root.cert, start.Add(3*year + time.Second), "expired at 2029-02-28T12:00:00Z"},
		{"a leaf", leaf, start, "not a CA"},
		{"no certSign", &noSign, start, "key usage"},
		{"another's key", newRoot(t, 1, clusterOnly).cert, start, "does not belong"},
	}
	for _, c := range cases {
		err := pki.CheckCA(c.cert, root.key, c.now)
		if c.want == "" {
			assert.NoError(t, err, c.name)
			continue
		}
		assert.ErrorContains(t, err, c.want, c.name)
	}
}

func TestVerifyServing(t *testing.T) {
	root, other := newRoot(t, 1, clusterOnly), newRoot(t, 1, clusterOnly)
	leaf := root.leaf(t, []string{"web.shop.svc"})
	now := start.Add(time.Hour)
	assert.NoError(t, pki.VerifyServing(leaf, nil, root.cert, now))
	assert.Error(t, pki.VerifyServing(leaf, nil, other.cert, now), "another root")
	assert.Error(t, pki.VerifyServing(leaf, nil, root.cert, start.Add(year)), "expired")
	assert.Error(t, pki.VerifyServing(leaf, []*x509.Certificate{root.cert}, other.cert, now), "its own root in the chain makes no trust")
}

// ladder returns generations 1 to n and their cross-certificates, newest first:
// the chain that the newest serves.
func ladder(t *testing.T, n int) (generations []authority, chain []*x509.Certificate) {
	t.Helper()
	for i := range n {
		next := newRoot(t, i+1, clusterOnly)
		if i > 0 {
			cross, err := pki.NewCross(next.cert, generations[i-1].cert, generations[i-1].key, start)
			require.NoError(t, err)
			chain = slices.Insert(chain, 0, cross)
		}
		generations = append(generations, next)
	}
	return generations, chain
}

func TestLadderWithGo(t *testing.T) {
	for n := 1; n <= 5; n++ {
		generations, chain := ladder(t, n)
		leaf := generations[n-1].leaf(t, []string{"web.shop.svc"})
		outside := generations[n-1].leaf(t, []string{"example.com"})
		for i, trusted := range generations {
			assert.NoError(t, pki.VerifyServing(leaf, chain, trusted.cert, start.Add(time.Hour)), "signed by %d, trusted %d", n, i+1)
			assert.Error(t, pki.VerifyServing(outside, chain, trusted.cert, start.Add(time.Hour)), "the constraints hold over the chain")
			if i < n-1 {
				assert.Error(t, pki.VerifyServing(leaf, nil, trusted.cert, start.Add(time.Hour)), "without the chain there is no path")
			}
		}
	}
}

func TestLadderWithOpenSSL(t *testing.T) {
	openssl := lookOpenSSL(t)
	for n := 1; n <= 5; n++ {
		generations, chain := ladder(t, n)
		leaf := generations[n-1].leaf(t, []string{"web.shop.svc"})
		for i, trusted := range generations {
			out, err := openssl(t, trusted.cert, chain, leaf)
			assert.NoError(t, err, "signed by %d, trusted %d: %s", n, i+1, out)
		}
	}
}

func TestNewCross(t *testing.T) {
	older := newRoot(t, 1, clusterOnly)
	key := newKey(t, pki.ECDSAP256)
	wider := pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "apps.example.com"}}
	root, err := pki.NewRoot(key, 2, wider, start.Add(year), start.Add(4*year))
	require.NoError(t, err)

	cross, err := pki.NewCross(root, older.cert, older.key, start.Add(year))
	require.NoError(t, err)
	assert.Equal(t, root.RawSubject, cross.RawSubject)
	assert.Equal(t, root.RawSubjectPublicKeyInfo, cross.RawSubjectPublicKeyInfo)
	assert.Equal(t, root.SubjectKeyId, cross.SubjectKeyId)
	assert.Equal(t, older.cert.RawSubject, cross.RawIssuer)
	assert.Equal(t, older.cert.SubjectKeyId, cross.AuthorityKeyId)
	assert.Equal(t, -1, cross.MaxPathLen, "no path length")
	assert.True(t, cross.IsCA)
	assert.Equal(t, wider.Normalize(), pki.ConstraintsOf(cross))
	assert.Equal(t, root.ExtKeyUsage, cross.ExtKeyUsage)
	assert.Equal(t, root.PermittedEmailAddresses, cross.PermittedEmailAddresses)
	assert.Equal(t, root.PermittedURIDomains, cross.PermittedURIDomains)
	assert.Equal(t, older.cert.NotAfter, cross.NotAfter, "no longer than the CA that signed it")
	assert.Equal(t, start.Add(year), cross.NotBefore)

	shorter, err := pki.NewRoot(key, 2, wider, start, start.Add(year))
	require.NoError(t, err)
	cross, err = pki.NewCross(shorter, older.cert, older.key, start)
	require.NoError(t, err)
	assert.Equal(t, shorter.NotAfter, cross.NotAfter, "no longer than its own root")

	_, err = pki.NewCross(root, older.cert, key, start)
	assert.ErrorContains(t, err, "not that of the older CA")
	_, err = pki.NewCross(older.cert, older.cert, older.key, start)
	assert.ErrorContains(t, err, "equal subjects")
}

// A cluster's ID is in the subject and changes nothing else: CAs of the same number and
// key differ by it, and the cross-certificate has it too.
func TestClusterID(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	now := time.Now()
	rootOf := func(cluster string) (*x509.Certificate, error) {
		return pki.NewClusterRoot(key, cluster, 3, pki.Constraints{PermittedDNS: []string{"svc"}}, now.Add(-time.Hour), now.Add(time.Hour))
	}
	none, err := rootOf("")
	require.NoError(t, err)
	root, err := rootOf("eu-west.1_A")
	require.NoError(t, err)
	assert.Equal(t, []string{"eu-west.1_A"}, root.Subject.OrganizationalUnit)
	assert.Equal(t, "CN="+none.Subject.CommonName+",OU=eu-west.1_A", root.Subject.String())
	assert.Equal(t, "CN="+none.Subject.CommonName, none.Subject.String())

	cross, err := pki.NewCross(root, none, key, now)
	require.NoError(t, err, "the subjects differ")
	assert.Equal(t, root.RawSubject, cross.RawSubject)

	for _, id := range []string{"a", "A9", "a.b", strings.Repeat("x", 64)} {
		require.NoError(t, pki.CheckClusterID(id), id)
	}
	for _, id := range []string{" ", "a b", "-a", "a.", "a,b", "a=b", "é", "a\nb", strings.Repeat("x", 65)} {
		_, err := rootOf(id)
		require.ErrorContains(t, err, "must be at most 64 letters, digits, '-', '_' and '.'", id)
	}
}

func TestOwnGeneration(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 12, pki.Constraints{PermittedDNS: []string{"svc"}}, time.Now(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	generation, ok := pki.OwnGeneration(root.Subject.CommonName)
	assert.True(t, ok)
	assert.Equal(t, "12", generation)
	for _, name := range []string{"servingcert CA", "servingcert CA 1", "my servingcert CA 1 0a0b0c0d", "servingcert CA 1 0a0b0c0d0e"} {
		_, ok := pki.OwnGeneration(name)
		assert.False(t, ok, name)
	}
}
