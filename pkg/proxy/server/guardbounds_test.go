package server

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// under returns a CA that another has signed, and appends it to the chains of its certificates.
func (a *clientCA) under(t testing.TB, parent *clientCA, key crypto.Signer) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: fmt.Sprintf("servingcert client CA %d", len(parent.cert.Raw))},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		ExtKeyUsage: a.cert.ExtKeyUsage, PermittedURIDomains: a.cert.PermittedURIDomains,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// A chain of four certificates is admitted, with keys of each size that a CA may have, also together with the ticket
// of a session that is not resumed.
func TestChainsOfFour(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 4096)
	require.NoError(t, err)
	for name, newKey := range map[string]func() crypto.Signer{
		"RSA of 4096 bits": func() crypto.Signer { return rsaKey },
		"ECDSA":            func() crypto.Signer { return newClientCA(t, 1).key },
	} {
		g := startGuarded(t, program(t, echo), strict+"=shop/cart")
		var chain []*x509.Certificate
		ca := g.ca
		for range 3 {
			key := newKey()
			cert := g.ca.under(t, ca, key)
			ca = &clientCA{cert, key}
			chain = slices.Insert(chain, 0, cert)
		}
		leaf := &x509.Certificate{}
		cert := ca.issue(t, cart, func(c *x509.Certificate) { *leaf = *c })
		if name != "ECDSA" { // with a key of that size too
			der, err := x509.CreateCertificate(rand.Reader, leaf, ca.cert, rsaKey.Public(), ca.key)
			require.NoError(t, err)
			cert = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: rsaKey}
		}
		for _, c := range chain {
			cert.Certificate = append(cert.Certificate, c.Raw)
		}
		for _, version := range []func(*tls.Config){version12, func(*tls.Config) {}} {
			config := presenting(cert, resuming, version)
			require.False(t, g.admitted(tls.Client(g.dial(strict), config)).ConnectionState().DidResume)
			require.True(t, g.admitted(tls.Client(g.dial(strict), config)).ConnectionState().DidResume, name)
			reloads := g.certs.reloads.Load()
			g.volume.swap(t, newPair(t, 9)) // and with it, the keys of tickets
			g.eventually("renewed", func() bool { return g.certs.reloads.Load() > reloads })
			require.False(t, g.admitted(tls.Client(g.dial(strict), config)).ConnectionState().DidResume, name)
		}
		g.stop()
	}
}

// A client's certificates take a bounded amount of memory, before and after the handshake, whether or not they are
// valid.
func TestLargeClientCertificates(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=watch;"+both+"=any")
	for _, name := range []string{strict, both} {
		c := g.as(g.ca.issue(t, cart, bytesOfExtension(25<<10)), name)
		err := c.Handshake()
		if err == nil {
			_, err = io.ReadAll(c)
		}
		require.Error(t, err)
		g.eventually("ended", func() bool { return g.conns.len() == 0 && g.of(name).counters.handshakeErrors.Load() == 1 })
	}
	g.admitted(g.as(g.ca.issue(t, cart, bytesOfExtension(15<<10)), both))
}

func bytesOfExtension(n int) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Value: make([]byte, n)}}
	}
}

// Nothing of a client's certificates is kept but its identity, and the buffers of crypto/tls, as after a large
// ClientHello. Parsed, they are many times as large as what was sent.
func TestCertificatesAreNotKept(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=watch")
	heap := func() int64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // bytes of this process
	}
	const clients = 100
	per := func(cert *tls.Certificate) int64 {
		require.NoError(t, g.admitted(g.as(cert, strict)).Close())
		g.eventually("ended", func() bool { return g.conns.len() == 0 })
		before, open := heap(), make([]*tls.Conn, clients)
		for i := range open {
			open[i] = g.admitted(g.as(cert, strict))
		}
		kept := (heap() - before) / clients
		for _, c := range open {
			require.NoError(t, c.Close())
		}
		g.eventually("ended", func() bool { return g.conns.len() == 0 })
		return kept
	}
	names := func(c *x509.Certificate) {
		for i := range 2500 {
			c.DNSNames = append(c.DNSNames, fmt.Sprintf("%03x", i))
		}
	}
	small := per(newClientCA(t, 1).issue(t, cart))
	large := newClientCA(t, 1).issue(t, cart, names)
	require.Greater(t, len(large.Certificate[0]), 12<<10)
	grown := per(large) - small
	t.Logf("%d bytes for a connection, %d more with a large certificate", small, grown)
	require.Less(t, grown, int64(36<<10))
}

// What a client may attach to its certificates would be kept as long as the connection.
func TestStapledDataIsRefused(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=watch;"+both+"=any")
	for _, name := range []string{strict, both} {
		cert := g.ca.issue(t, cart)
		cert.OCSPStaple = []byte("staple")
		g.alerted(g.as(cert, name), "bad certificate", "")
		cert.OCSPStaple, cert.SignedCertificateTimestamps = nil, [][]byte{{1}}
		g.alerted(g.as(cert, name), "bad certificate", "")
	}
}

// Clients of HTTP: HTTP/1.1, and HTTP/2 as of gRPC.
func TestGuardedHTTP(t *testing.T) {
	g := startGuarded(t, 1, strict+"=shop/cart;sc-tls-grpc=shop/cart", func(c *Config) {
		c.Ports[0].Upstream = httpProgram(t)
		c.Ports = append(c.Ports, proxy.Listen{Name: "sc-tls-grpc", Upstream: c.Ports[0].Upstream, H2: true})
	})
	refused := map[string]int{}
	for _, c := range []struct {
		port, want   string
		http1, http2 bool
	}{
		{strict, "HTTP/1.1", true, true},
		{strict, "HTTP/2.0", false, true},
		{"sc-tls-grpc", "HTTP/2.0", true, true},
		{"sc-tls-grpc", "HTTP/1.1", true, false},
	} {
		for _, cert := range []*tls.Certificate{g.ca.issue(t, cart), g.ca.issue(t, other)} {
			transport := &http.Transport{TLSClientConfig: presenting(cert), Protocols: &http.Protocols{}}
			transport.Protocols.SetHTTP1(c.http1)
			transport.Protocols.SetHTTP2(c.http2)
			response, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + g.address(c.port))
			if cert.Leaf.URIs[0].String() == other {
				require.Error(t, err, "%+v", c)
				g.eventually("refused", func() bool { return g.refusals(c.port, proxy.NotListed) > refused[c.port] })
				refused[c.port] = g.refusals(c.port, proxy.NotListed) // clients may try again
				continue
			}
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.want, string(body), "%+v", c)
			transport.CloseIdleConnections()
		}
	}
}

// The program gets the verified identity in the header, and nothing of a client that has none.
func TestIdentityInTheHeader(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=watch;"+both+"=shop/cart", func(c *Config) {
		for i := range c.Ports {
			c.Ports[i].ProxyV2 = true
		}
	})
	headerOf := func(c *tls.Conn) (header, plain string) {
		require.NoError(t, c.Handshake())
		_, err := io.WriteString(c, "ping")
		require.NoError(t, err)
		begin := receive(t, c, 16)
		header = begin + receive(t, c, int(begin[14])<<8+int(begin[15]))
		require.Equal(t, "ping", receive(t, c, 4))
		plain = string(proxy.Header(addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())))
		return header, plain
	}
	for _, name := range []string{strict, both} {
		for version, is := range map[uint16]string{tls.VersionTLS12: "TLSv1.2", tls.VersionTLS13: "TLSv1.3"} {
			config := presenting(g.ca.issue(t, cart), resuming, func(c *tls.Config) { c.MaxVersion = version })
			for _, flags := range []string{"\x07", "\x05"} {
				header, plain := headerOf(tls.Client(g.dial(name), config))
				require.Equal(t, plain[16:]+"\x20\x00\x0f"+flags+"\x00\x00\x00\x00\x21\x00\x07"+is+"\xe0\x00\x24"+cart, header[16:])
			}
		}
	}
	for _, cert := range []*tls.Certificate{nil, newClientCA(t, 1).issue(t, cart)} {
		header, plain := headerOf(g.as(cert, strict))
		require.Equal(t, plain, header)
	}
	require.NotContains(t, g.logs.String(), "PRIVATE")
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
