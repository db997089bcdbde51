package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// authority is a CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert, key}
}

// pem returns the CA bundle.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns a certificate of a server.
func (a *authority) issue(t testing.TB, change ...func(*x509.Certificate)) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}
}

// Outbound ports of a test, by mode. They lead to one Service.
const (
	atOnce = "api.shop.svc:80"
	waits  = "api.shop.svc:81"
	either = "api.shop.svc:82"

	host = "api.shop.svc"
)

// service is a Service, whose address in DNS leads to a server on this machine.
type service struct {
	t       testing.TB
	ca      *authority
	bundle  string // the file with the CA
	server  atomic.Uint32
	lookups atomic.Int64
	answer  atomic.Pointer[Resolver] // instead of the address
}

// serviceIP is an address of a documentation network (RFC 5737): nothing may connect to it.
var serviceIP = netip.MustParseAddr("192.0.2.10")

func newService(t testing.TB) *service {
	t.Helper()
	svc := &service{t: t, ca: newAuthority(t), bundle: filepath.Join(t.TempDir(), "ca.crt")}
	svc.trust(svc.ca.pem())
	return svc
}

// trust replaces the CA bundle, as the kubelet does.
func (svc *service) trust(pem []byte) {
	svc.t.Helper()
	require.NoError(svc.t, os.WriteFile(svc.bundle+".new", pem, 0o600))
	require.NoError(svc.t, os.Rename(svc.bundle+".new", svc.bundle))
}

// outside runs a Server with an outbound port of each mode.
func (svc *service) outside(change ...func(*Config)) *world {
	svc.t.Helper()
	return start(svc.t, 1, append([]func(*Config){func(c *Config) { c.Ports = nil }, svc.connects}, change...)...)
}

// connects adds the outbound ports.
func (svc *service) connects(c *Config) {
	for name, mode := range map[string]proxy.Mode{atOnce: proxy.ModeAtOnce, waits: proxy.ModeHTTP, either: proxy.ModeEither} {
		c.Connects = append(c.Connects, proxy.Connect{Name: name, Host: host, Port: 443, Mode: mode, Local: netip.MustParseAddrPort("127.1.0.1:0")})
	}
	c.CAFile, c.ClusterDomain, c.Resolve, c.dial = svc.bundle, "cluster.local", svc.resolve, svc.dial
}

func (svc *service) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	svc.lookups.Add(1)
	if answer := svc.answer.Load(); answer != nil {
		return (*answer)(ctx, name)
	}
	if name != host+".cluster.local." {
		return nil, errors.New("unexpected name " + name)
	}
	return []netip.Addr{serviceIP}, nil
}

// answers replaces the answer of DNS.
func (svc *service) answers(f Resolver) { svc.answer.Store(&f) }

// dial connects to the server behind the address of the Service.
func (svc *service) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != netip.AddrPortFrom(serviceIP, 443).String() {
		return nil, errors.New("unexpected address " + address)
	}
	return (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", svc.server.Load()))
}

// serve runs a TLS server behind the Service.
func (svc *service) serve(config *tls.Config, serve func(*tls.Conn)) {
	svc.t.Helper()
	svc.raw(func(raw *net.TCPConn) {
		c := tls.Server(raw, config)
		if c.Handshake() == nil {
			serve(c)
		}
	})
}

// raw runs a server behind the Service.
func (svc *service) raw(serve func(*net.TCPConn)) {
	svc.t.Helper()
	svc.server.Store(uint32(program(svc.t, serve)))
}

// config is the configuration of a server with a certificate of the Service.
func (svc *service) config(change ...func(*x509.Certificate)) *tls.Config {
	svc.t.Helper()
	p := svc.ca.issue(svc.t, change...)
	cert, err := tls.X509KeyPair(p.cert, p.key)
	require.NoError(svc.t, err)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
}

// echoTLS returns all data, and closes when its client does.
func echoTLS(c *tls.Conn) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

// requireReset requires that a connection to a port ends in a reset, without a byte for the client. The reset may come
// before the client has seen that it is connected.
func (w *world) requireReset(name, first, why string) {
	w.t.Helper()
	var b []byte
	c, err := net.DialTCP("tcp", nil, w.at(name))
	if err == nil {
		defer c.Close()
		require.NoError(w.t, c.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(c, first)
	}
	if err == nil {
		b, err = io.ReadAll(c)
	}
	require.ErrorIs(w.t, err, syscall.ECONNRESET, why)
	require.Empty(w.t, b, why)
}
