package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

func addresses(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestReachable(t *testing.T) {
	own := addresses("127.0.0.1", "::1", "10.1.2.3", "fd00::3")
	for _, c := range []struct{ answer, want []string }{
		{[]string{"10.96.0.10"}, []string{"10.96.0.10"}},
		{[]string{"fd00::a", "10.96.0.10"}, []string{"fd00::a", "10.96.0.10"}},
		{[]string{"::ffff:10.96.0.10", "10.96.0.10"}, []string{"10.96.0.10"}},
		{[]string{"10.1.2.3", "10.96.0.10", "127.1.0.1"}, []string{"10.96.0.10"}},
		{[]string{"127.1.0.1"}, nil},
		{[]string{"::ffff:127.1.0.1"}, nil},
		{[]string{"::1"}, nil},
		{[]string{"0.0.0.0"}, nil},
		{[]string{"::"}, nil},
		{[]string{"::ffff:0.0.0.0"}, nil},
		{[]string{"169.254.169.254"}, nil},
		{[]string{"fe80::1"}, nil},
		{[]string{"224.0.0.1"}, nil},
		{[]string{"ff02::1"}, nil},
		{[]string{"10.1.2.3"}, nil},
		{[]string{"::ffff:10.1.2.3", "fd00::3"}, nil},
	} {
		got, err := proxy.Reachable(addresses(c.answer...), own)
		assert.Equal(t, addresses(c.want...), got, "%v", c.answer)
		if c.want == nil {
			require.ErrorIs(t, err, proxy.ErrItself)
			require.ErrorContains(t, err, "DNS answered "+c.answer[0]+": the proxy would connect to itself")
		} else {
			require.NoError(t, err)
		}
	}
	_, err := proxy.Reachable(nil, own)
	require.EqualError(t, err, "DNS has no address")
	_, err = proxy.Reachable([]netip.Addr{{}}, own)
	require.ErrorIs(t, err, proxy.ErrItself)
	var many []netip.Addr
	for i := range 100 {
		many = append(many, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	got, err := proxy.Reachable(many, own)
	require.NoError(t, err)
	require.Equal(t, many[:16], got)
}

func TestCheckNameService(t *testing.T) {
	for content, ok := range map[string]bool{
		"hosts: dns\n": true, "hosts: dns": true, "# why\n\n  hosts:\tdns  # only\n": true,
		"": false, "hosts: files dns\n": false, "hosts: dns files\n": false, "hosts: dns [!UNAVAIL=return] files\n": false, "hosts:\n": false,
		"hosts: dns\nhosts: files\n": false, "hosts: dns\npasswd: files\n": false, "# hosts: dns\n": false,
		"hosts: dns\ngarbage\n": false, // Go then uses its default, with /etc/hosts
	} {
		assert.Equal(t, ok, proxy.CheckNameService(content) == nil, "%q", content)
	}
}

func TestAdvice(t *testing.T) {
	verification := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	for want, err := range map[string]error{
		"check that the Service requests its certificate": verification(x509.UnknownAuthorityError{}),
		"have the certificate of this Service":            verification(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}),
		"reloads its renewed certificate":                 verification(x509.CertificateInvalidError{Reason: x509.Expired}),
		"the port does not speak TLS":                     fmt.Errorf("x: %w", tls.RecordHeaderError{}),
		"the server refused the handshake":                &net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")},
	} {
		assert.Contains(t, proxy.Advice(err), want)
	}
	assert.Empty(t, proxy.Advice(verification(x509.CertificateInvalidError{Reason: x509.TooManyIntermediates})))
	assert.Empty(t, proxy.Advice(&net.OpError{Op: "read", Err: errors.New("reset")}))
}
