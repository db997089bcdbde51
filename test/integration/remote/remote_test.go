// Package remote tests the signer's side of a CA that is elsewhere against
// cfssl's own servers, configured as docs/remote-ca.md says.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/integration/remote/cfsslserver"
)

var kinds = []cfsslserver.Kind{cfsslserver.Serve, cfsslserver.Multirootca}

var site *cfsslserver.Site

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{NoControlPlane: true}, func(ctx context.Context, s *harness.Suite) (err error) {
		site, err = cfsslserver.NewSite(ctx, s.Dir)
		return err
	})
}

// remoteTo returns a CA that is at the servers.
func remoteTo(t *testing.T, servers []*cfsslserver.Server, change ...func(*cfssl.RemoteConfig)) *cfssl.Remote {
	trusted, err := os.ReadFile(site.ServerCAFile)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(trusted))
	hex, err := os.ReadFile(site.AuthKeyFile)
	require.NoError(t, err)
	key, err := cfssl.ParseAuthKey(hex)
	require.NoError(t, err)
	cfg := cfssl.RemoteConfig{
		ServerCAs: pool, AuthKey: key, Clock: time.Now, Timeout: cfssl.DefaultTimeout,
		Profile: cfssl.DefaultProfile, ProfileRSA: cfssl.DefaultProfile + "-rsa",
	}
	for _, s := range servers {
		cfg.URLs = append(cfg.URLs, s.URL)
	}
	for _, f := range change {
		f(&cfg)
	}
	remote, err := cfssl.NewRemote(cfg)
	require.NoError(t, err)
	return remote
}

// known is the CA as the signer knows it from what the servers say.
func known(t *testing.T, remote *cfssl.Remote) *pki.Authority {
	info, err := remote.Info(context.Background())
	require.NoError(t, err)
	assert.Empty(t, info.Warnings)
	return &pki.Authority{
		Issuer: pki.Issuer{Certificate: info.Issuer, Chain: info.Chain}, Bundle: pki.NewBundle(info.Root),
		Anchors: []*x509.Certificate{info.Root}, SignUntil: info.Issuer.NotAfter,
	}
}

func wanted(algorithm pki.KeyAlgorithm) api.Wanted {
	return api.Wanted{
		DNSNames: []string{"*.web.shop.svc", "*.web.shop.svc.cluster.local", "web.shop.svc", "web.shop.svc.cluster.local"},
		Params:   api.Params{KeyAlgorithm: algorithm, Duration: api.DefaultLimits().DefaultDuration},
	}
}

func issueBy(remote *cfssl.Remote, ca *pki.Authority) error {
	_, err := issue.Issue(context.Background(), remote.Sign, ca, wanted(pki.ECDSAP256), time.Now())
	return err
}

// reason is the condition's under this error.
func reason(t *testing.T, err error) string {
	var remoteErr *cfssl.Error
	require.ErrorAs(t, err, &remoteErr)
	return remoteErr.Reason()
}

// Each key algorithm, from each server, under a root and under an intermediate:
// what is asked for is what comes, and a client that trusts the root alone
// verifies it in a handshake.
func TestRealServersSign(t *testing.T) {
	for _, kind := range kinds {
		for _, below := range []string{"", "intermediate"} {
			t.Run(strings.Join([]string{string(kind), below}, " "), func(t *testing.T) {
				ca, bundle := cfsslserver.NewCA(t, "root"), []*x509.Certificate(nil)
				if below != "" {
					root := ca
					ca = root.Below(t, below)
					bundle = []*x509.Certificate{root.Certificate}
				}
				remote := remoteTo(t, []*cfsslserver.Server{site.Start(t, kind, ca)}, func(c *cfssl.RemoteConfig) { c.Bundle = bundle })
				authority := known(t, remote)
				require.True(t, authority.Certificate.Equal(ca.Certificate))
				for _, algorithm := range pki.KeyAlgorithms() {
					now := time.Now()
					want := wanted(algorithm)
					issued, err := issue.Issue(context.Background(), remote.Sign, authority, want, now)
					require.NoError(t, err, algorithm)
					names := slices.Clone(issued.Leaf.DNSNames)
					slices.Sort(names)
					assert.Equal(t, want.DNSNames, names)
					assert.Equal(t, algorithm, algorithmOf(issued.Leaf))
					assert.False(t, issued.Leaf.NotBefore.After(now))
					assert.LessOrEqual(t, pki.Lifetime(issued.Leaf), want.Params.Duration)
					if kind == cfsslserver.Multirootca {
						assert.Equal(t, want.Params.Duration, pki.Lifetime(issued.Leaf), "it takes both ends from the request")
						assert.Equal(t, pki.NotBefore(now), issued.Leaf.NotBefore)
					}
					handshake(t, issued, authority.Anchors[0])
				}
			})
		}
	}
}

func algorithmOf(cert *x509.Certificate) pki.KeyAlgorithm {
	algorithm, _ := pki.AlgorithmOf(cert.PublicKey)
	return algorithm
}

// handshake serves the pair to a client that trusts root alone.
func handshake(t *testing.T, issued issue.Issued, root *x509.Certificate) {
	pair, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake() // the client tells how it went
			_ = conn.Close()
		}
	}()
	trusted := x509.NewCertPool()
	trusted.AddCert(root)
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: trusted, ServerName: "web.shop.svc"})
	require.NoError(t, err)
	assert.NoError(t, conn.Close())
}

// IP addresses are names too, where the CA's constraints let them be.
func TestRealServersSignAddresses(t *testing.T) {
	for _, kind := range kinds {
		remote := remoteTo(t, []*cfsslserver.Server{site.Start(t, kind, cfsslserver.NewCA(t, "root"))})
		want := wanted(pki.ECDSAP256)
		want.IPs = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
		issued, err := issue.Issue(context.Background(), remote.Sign, known(t, remote), want, time.Now())
		require.NoError(t, err, kind)
		assert.Len(t, issued.Leaf.IPAddresses, 2)
	}
}
