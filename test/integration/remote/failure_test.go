package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/remote/cfsslserver"
)

// What a real server says to what is wrong on our side.
func TestRealServersRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   cfsslserver.Kind // "": both
		change func(*cfssl.RemoteConfig)
		want   issue.Reason
		says   string
	}{
		{"another HMAC key", "", func(c *cfssl.RemoteConfig) { c.AuthKey = bytes.Repeat([]byte{1}, 32) }, issue.ReasonCARefused, `refused: "invalid token"`},
		{"another TLS CA", "", func(c *cfssl.RemoteConfig) { c.ServerCAs = x509.NewCertPool() }, issue.ReasonUnreachable, "certificate signed by unknown authority"},
		{"a profile that does not exist", cfsslserver.Serve, func(c *cfssl.RemoteConfig) { c.Profile = "web" }, issue.ReasonCARefused, `refused: "`},
		{"a profile that does not exist", cfsslserver.Multirootca, func(c *cfssl.RemoteConfig) { c.Profile = "web" }, issue.ReasonCARefused, `refused: "invalid profile"`},
		{"a label that does not exist", cfsslserver.Multirootca, func(c *cfssl.RemoteConfig) { c.Label = "other" }, issue.ReasonCARefused, `refused: "bad request"`},
		{"another path", "", func(c *cfssl.RemoteConfig) { c.URLs[0] += "/api" }, issue.ReasonCAAnswer, "answered with status 404"},
		{"another name", "", func(c *cfssl.RemoteConfig) { c.URLs[0] = strings.Replace(c.URLs[0], "127.0.0.1", "localhost", 1) }, issue.ReasonUnreachable, "wanted to match localhost"},
	} {
		for _, kind := range kinds {
			if c.kind != "" && c.kind != kind {
				continue
			}
			t.Run(c.name+", "+string(kind), func(t *testing.T) {
				server := site.Start(t, kind, cfsslserver.NewCA(t, "root"))
				authority := known(t, remoteTo(t, []*cfsslserver.Server{server}))
				err := issueBy(remoteTo(t, []*cfsslserver.Server{server}, c.change), authority)
				require.ErrorContains(t, err, c.says)
				assert.Equal(t, string(c.want), reason(t, err))
			})
		}
	}
}

// The server's own bound on names holds, whatever the signer asks for.
func TestNameWhitelistAsDocumented(t *testing.T) {
	for _, kind := range kinds {
		remote := remoteTo(t, []*cfsslserver.Server{site.Start(t, kind, cfsslserver.NewCA(t, "root"))})
		authority := known(t, remote)
		for _, name := range []string{"example.com", "web.svc", "svc", "web.shop.svc.example.com", "web.shop.svc.cluster.localx", "Web.shop.svc"} {
			want := wanted(pki.ECDSAP256)
			want.DNSNames = []string{name}
			_, err := issue.Issue(context.Background(), remote.Sign, authority, want, time.Now())
			require.Error(t, err, name)
			assert.Equal(t, string(issue.ReasonCARefused), reason(t, err), "%s: %s", kind, name)
		}
		want := wanted(pki.ECDSAP256)
		want.DNSNames = []string{"a.web.shop.svc.cluster.local", "web-2.shop.svc"}
		_, err := issue.Issue(context.Background(), remote.Sign, authority, want, time.Now())
		require.NoError(t, err, kind)
	}
}

// As documented, cfssl serve has no endpoint that signs without an HMAC.
func TestServeAsDocumentedSignsForNobodyElse(t *testing.T) {
	server := site.Start(t, cfsslserver.Serve, cfsslserver.NewCA(t, "root"))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, endpoint := range []string{"sign", "newcert", "newkey", "init_ca", "gencrl", "certadd", "bundle", "scan", "certinfo", "revoke", "crl", "ocspsign"} {
		response, err := client.Post(server.URL+"/api/v1/cfssl/"+endpoint, "application/json", strings.NewReader(`{"request":{"CN":"x","hosts":["web.shop.svc"]},"profile":"serving"}`))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusNotFound, response.StatusCode, endpoint)
	}
}

// movableClock is the real time and what a test adds to it.
type movableClock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *movableClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *movableClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func TestFailover(t *testing.T) {
	ca, clock := cfsslserver.NewCA(t, "root"), &movableClock{}
	first, second := site.Start(t, cfsslserver.Multirootca, ca), site.Start(t, cfsslserver.Serve, ca)
	remote := remoteTo(t, []*cfsslserver.Server{first, second}, func(c *cfssl.RemoteConfig) { c.Clock = clock.now })
	authority := known(t, remote)
	require.NoError(t, issueBy(remote, authority))
	assert.NotContains(t, second.Log(), "signature request received")

	first.Stop()
	require.NoError(t, issueBy(remote, authority))
	require.NoError(t, issueBy(remote, authority))
	assert.Contains(t, second.Log(), "signature request received")
	info, err := remote.Info(context.Background())
	require.NoError(t, err)
	assert.Equal(t, second.URL, info.Server)

	second.Stop()
	err = issueBy(remote, authority)
	require.ErrorContains(t, err, first.URL+": connect: connection refused; "+second.URL+": connect: connection refused")
	assert.Equal(t, string(issue.ReasonUnreachable), reason(t, err))
	assert.Error(t, remote.Available())

	first.Start(t)
	clock.advance(time.Minute)
	require.NoError(t, remote.Available())
	require.NoError(t, issueBy(remote, authority), "it is back, and asked a minute later at the latest")
}

// The CA of a server is replaced: what the new one signs does not count before
// clients trust it, and the server that still has the old one signs meanwhile.
func TestServersWithAnotherCA(t *testing.T) {
	oldCA, newerCA := cfsslserver.NewCA(t, "old"), cfsslserver.NewCA(t, "new")
	before, after := site.Start(t, cfsslserver.Multirootca, oldCA), site.Start(t, cfsslserver.Multirootca, oldCA)
	remote := remoteTo(t, []*cfsslserver.Server{after, before})
	authority := known(t, remote)
	after.Use(t, newerCA)
	require.NoError(t, issueBy(remote, authority), "the next server still signs with the old one")
	next := known(t, remote)
	assert.True(t, next.Certificate.Equal(newerCA.Certificate), "and what is known of the new one is the way to it")
	require.NoError(t, issueBy(remote, next))

	before.Use(t, newerCA)
	err := issueBy(remote, authority)
	require.ErrorContains(t, err, `signed with CA "CN=new", but clients trust CA "CN=old"`)
	assert.Equal(t, string(issue.ReasonCAChanged), reason(t, err))

	pinned := remoteTo(t, []*cfsslserver.Server{after}, func(c *cfssl.RemoteConfig) { c.Bundle = []*x509.Certificate{oldCA.Certificate} })
	_, err = pinned.Info(context.Background())
	assert.Equal(t, string(issue.ReasonCAUntrusted), reason(t, err))
}

// A profile that is not as documented signs what is refused here, and says so
// where info tells.
func TestProfilesThatAreNotAsDocumented(t *testing.T) {
	for _, c := range []struct {
		name, from, to, says string
		warned               bool
	}{
		{"client auth too", `["digital signature", "server auth"]`, `["digital signature", "server auth", "client auth"]`, "must be serverAuth only", true},
		{"as for RSA", `["digital signature", "server auth"]`, `["digital signature", "key encipherment", "server auth"]`, "its key usage is 0x5, must be 0x1", true},
		{"a longer life", `"719h"`, `"8760h"`, "must not expire after", false},
		{"in the future", `"10m"`, `"-10m"`, "it is not valid before", false},
		{"over already", `"719h"`, `"1m"`, "rejects it", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := site.Start(t, cfsslserver.Serve, cfsslserver.NewCA(t, "root"))
			remote := remoteTo(t, []*cfsslserver.Server{server})
			authority := known(t, remote)
			server.Configure(t, func(profiles string) string {
				require.Contains(t, profiles, c.from)
				return strings.ReplaceAll(profiles, c.from, c.to)
			})
			err := issueBy(remote, authority)
			var refused *issue.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, c.says)
			info, err := remote.Info(context.Background())
			require.NoError(t, err)
			assert.Equal(t, c.warned, len(info.Warnings) > 0, "%q", info.Warnings)
		})
	}
}

// The servers are of the version that the signer speaks to as a library.
func TestServersAreOfTheSameVersion(t *testing.T) {
	version := func(mod string) string {
		data, err := os.ReadFile(mod)
		require.NoError(t, err)
		m := regexp.MustCompile(`(?m)^\s*(?:require )?github\.com/cloudflare/cfssl (v\S+)`).FindSubmatch(data)
		require.NotNil(t, m, mod)
		return string(m[1])
	}
	assert.Equal(t, version("../../../go.mod"), version("../../../hack/cfssl/go.mod"))
	docs, err := os.ReadFile("../../../docs/remote-ca.md")
	require.NoError(t, err)
	assert.Contains(t, string(docs), "version "+strings.TrimPrefix(version("../../../go.mod"), "v"))
}
