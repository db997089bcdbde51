package kubelets

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// leaf is a certificate of a day, of a CA or self-signed, begun so long ago.
func leaf(t *testing.T, cn, address string, age time.Duration, selfSigned bool) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn, Organization: []string{"system:nodes"}}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: noon.Add(-age), NotAfter: noon.Add(24*time.Hour - age),
	}
	parent := &x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}}
	if selfSigned {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), key)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

func TestJudge(t *testing.T) {
	const own, address = "system:node:worker", "10.0.0.5"
	good := leaf(t, own, address, time.Hour, false)
	issued := func(c *x509.Certificate, ago time.Duration) Given {
		return Given{Leaf: pki.Fingerprint(c), Seen: noon.Add(-ago)}
	}
	another := leaf(t, own, address, time.Minute, false)
	serves := func(c *x509.Certificate) probe.Outcome { return probe.Judge([]*x509.Certificate{c}, nil) }
	for what, c := range map[string]struct {
		refused probe.Cause
		outcome probe.Outcome
		given   Given
		want    State
		says    string
	}{
		"nothing is known of what it was issued": {outcome: serves(good), want: Current},
		"what it was issued":                     {outcome: serves(good), given: issued(good, time.Hour), want: Current},
		"the one before, a moment ago":           {outcome: serves(good), given: issued(another, Grace-time.Second), want: Current},
		"the one before":                         {outcome: serves(good), given: issued(another, Grace), want: Other, says: "was issued sha256:" + pki.Fingerprint(another)[:8]},
		"self-signed":                            {outcome: serves(leaf(t, own, address, time.Hour, true)), want: NotIssued, says: "is serverTLSBootstrap on"},
		"another node's":                         {outcome: serves(leaf(t, "system:node:other", address, time.Hour, false)), want: NotIssued},
		"for another address":                    {outcome: serves(leaf(t, own, "10.0.0.6", time.Hour, false)), want: WrongName, says: "not for its address 10.0.0.5"},
		"ended":                                  {outcome: serves(leaf(t, own, address, 25*time.Hour, false)), want: Expired},
		"not begun":                              {outcome: serves(leaf(t, own, address, -time.Hour, false)), want: Expired},
		"at 90 % of its life, which a kubelet uses": {outcome: serves(leaf(t, own, address, 24*time.Hour*90/100, false)), want: Current},
		"at 96 % of its life":                       {outcome: serves(leaf(t, own, address, 24*time.Hour*96/100, false)), want: Late, says: "should have renewed"},
		"no handshake":                              {outcome: probe.Unreachable(errors.New("no route")), want: Unreachable, says: "10.0.0.5:10250 serves no certificate: other"},
		"plaintext":                                 {outcome: probe.Outcome{Kind: probe.Plaintext}, want: Unreachable, says: "does not answer with TLS"},
		"an address outside":                        {refused: probe.CauseOutside, want: NotDialled, says: "10.0.0.5 is in none of --node-cidrs"},
		"a metadata service":                        {refused: probe.CauseMetadata, want: NotDialled, says: "metadata service"},
	} {
		state, message := Judge(Situation{Now: noon, Node: "worker", Address: netip.MustParseAddr(address), Refused: c.refused, Outcome: c.outcome, Given: c.given})
		assert.Equal(t, c.want, state, "%s: %s", what, message)
		assert.Contains(t, message, c.says, what)
		assert.Equal(t, state == Current, message == "", what)
	}
}

func TestAddress(t *testing.T) {
	permitted := probe.Addresses{Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")}}
	for _, c := range []struct {
		reports []string
		want    string
		refused probe.Cause
	}{
		{[]string{"10.0.0.5", "fd00::5"}, "10.0.0.5", ""},
		{[]string{"192.168.0.5", "fd00::5"}, "fd00::5", ""},
		{[]string{"192.168.0.5", "nonsense"}, "192.168.0.5", probe.CauseOutside},
		{[]string{"169.254.169.254"}, "169.254.169.254", probe.CauseLinkLocal},
		{[]string{"127.0.0.1"}, "127.0.0.1", probe.CauseLoopback},
		{nil, "", probe.CauseUnspecified},
	} {
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
		for _, a := range c.reports {
			o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "10.0.0.9"})
		got, refused := NodeOf(o).Address(permitted)
		assert.Equal(t, c.refused, refused, c.reports)
		if c.want != "" {
			assert.Equal(t, c.want, got.String(), c.reports)
		}
	}
}

func TestGiven(t *testing.T) {
	c := leaf(t, "system:node:worker", "10.0.0.5", 0, false)
	request := func(user string, certificate []byte, created time.Time) *Issued {
		return IssuedOf(&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "csr", CreationTimestamp: metav1.NewTime(created)},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Username: user},
			Status:     certificatesv1.CertificateSigningRequestStatus{Certificate: certificate},
		})
	}
	signed := request("system:node:worker", pki.EncodeCertificates(c), noon)
	assert.Equal(t, "worker", signed.Node)
	g := Given{}.After(request("system:node:worker", nil, noon), noon)
	assert.Equal(t, Given{}, g, "it is not signed")
	assert.Equal(t, Given{}, g.After(request("system:serviceaccount:a:b", pki.EncodeCertificates(c), noon), noon), "no node asks")
	assert.Equal(t, Given{}, g.After(request("system:node:worker", []byte("nonsense"), noon), noon))
	g = g.After(signed, noon)
	assert.Equal(t, Given{Leaf: pki.Fingerprint(c), Created: noon, Seen: noon}, g)
	assert.Equal(t, g, g.After(signed, noon.Add(time.Hour)), "it is seen again")
	older := leaf(t, "system:node:worker", "10.0.0.5", 0, false)
	assert.Equal(t, g, g.After(request("system:node:worker", pki.EncodeCertificates(older), noon.Add(-time.Minute)), noon), "an older one is signed later")
}
