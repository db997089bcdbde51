package cfssl

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudflare/cfssl/info"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

func TestRemoteSigns(t *testing.T) {
	ca := newCA(t, pki.Constraints{PermittedDNS: clusterNames.PermittedDNS, PermitIPs: true}, epoch.Add(-day), epoch.Add(1000*day))
	server := serve(t, signs(ca))
	remote, _ := remoteAt(t, []*remoteServer{server})
	wanted := wantedBy(service("web"))
	wanted.IPs = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.Ed25519, pki.RSA2048} {
		wanted.Params.KeyAlgorithm = algorithm
		issued, err := issue.Issue(context.Background(), remote.Sign, withoutKey(ca), wanted, epoch)
		require.NoError(t, err, algorithm)
		assert.Equal(t, wanted.DNSNames, slices.Sorted(slices.Values(issued.Leaf.DNSNames)))
		assert.Equal(t, pki.NotBefore(epoch), issued.Leaf.NotBefore, "both ends of the validity are asked for")
		assert.Equal(t, pki.NotBefore(epoch).Add(wanted.Params.Duration), issued.Leaf.NotAfter)
	}
	require.NoError(t, remote.Available())
}

// Any invalid answer of a server leads to an error with its name and a reason, never to a panic or
// a certificate, and never contains the key.
func TestRemoteAnswersThatAreNoCertificate(t *testing.T) {
	ca := testCA(t)
	certificate := func(c any) http.HandlerFunc {
		return answer(200, success(map[string]any{"certificate": c}))
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		reason  issue.Reason
		says    string
	}{
		"nothing":                    {answer(200, ""), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"no JSON":                    {answer(200, "<html>hello"), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"JSON of another kind":       {answer(200, `[1, 2]`), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"null":                       {answer(200, `null`), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"another protocol":           {answer(200, `{"ok": true}`), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"cut off":                    {answer(200, success(map[string]any{"certificate": "x"})[:20]), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"nested without end":         {answer(200, string(slices.Repeat([]byte("["), 100_000))), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"no result":                  {answer(200, `{"success": true}`), issue.ReasonCAAnswer, "the answer is not a certificate"},
		"result is null":             {answer(200, `{"success": true, "result": null}`), issue.ReasonCAAnswer, "the answer is not a certificate"},
		"result is a string":         {answer(200, success("hello")), issue.ReasonCAAnswer, "the answer is not a certificate"},
		"result is empty":            {answer(200, success(map[string]any{})), issue.ReasonCAAnswer, "the answer is not a certificate: no certificate"},
		"certificate is a number":    {certificate(7), issue.ReasonCAAnswer, "cannot unmarshal number"},
		"certificate is null":        {certificate(nil), issue.ReasonCAAnswer, "the answer is not a certificate: no certificate"},
		"certificate is an object":   {certificate(map[string]any{"a": 1}), issue.ReasonCAAnswer, "cannot unmarshal object"},
		"certificate is text":        {certificate("not a cert"), issue.ReasonCAAnswer, "certificate 1: not PEM"},
		"certificate is damaged":     {certificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), issue.ReasonCAAnswer, "certificate 1: "},
		"certificate is a key":       {certificate("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), issue.ReasonCAAnswer, `PEM block is a "PRIVATE KEY"`},
		"usages are a number":        {answer(200, success(map[string]any{"certificate": "x", "usages": 3})), issue.ReasonCAAnswer, "cannot unmarshal number"},
		"refused":                    {answer(400, refusal("invalid token")), issue.ReasonCARefused, `refused: "invalid token" (code 400, status 400)`},
		"refused with status 200":    {answer(200, refusal("no")), issue.ReasonCARefused, `refused: "no"`},
		"refused at length":          {answer(400, refusal(string(slices.Repeat([]byte("no\n"), 5000)))), issue.ReasonCARefused, "…"},
		"refused without a word":     {answer(200, `{"success": false}`), issue.ReasonCAAnswer, "not in the cfssl protocol"},
		"not found":                  {answer(404, "404 page not found\n"), issue.ReasonCAAnswer, "/api/v1/cfssl/authsign is the right URL and that the endpoint is enabled"},
		"forbidden":                  {answer(403, "Invalid CN\n"), issue.ReasonCAAnswer, "answered with status 403"},
		"success with status 400":    {answer(400, success(map[string]any{"certificate": "x"})), issue.ReasonCAAnswer, "answered with status 400"},
		"broken":                     {answer(500, "<html>"), issue.ReasonUnreachable, "answered with status 500"},
		"broken, and says so":        {answer(500, refusal("bad certificate")), issue.ReasonUnreachable, `answered with status 500: "bad certificate"`},
		"a gateway":                  {answer(502, ""), issue.ReasonUnreachable, "answered with status 502"},
		"endless":                    {endless, issue.ReasonCAAnswer, "longer than the allowed 262144 bytes"},
		"endless headers":            {manyHeaders, issue.ReasonUnreachable, "server response headers exceeded"},
		"hangs up":                   {hangUp, issue.ReasonUnreachable, ""},
		"resets the connection":      {reset, issue.ReasonUnreachable, ": read: connection reset by peer"},
		"begins and hangs up":        {beginAndHangUp, issue.ReasonUnreachable, ""},
		"redirects":                  {http.RedirectHandler("http://127.0.0.1:1/", http.StatusTemporaryRedirect).ServeHTTP, issue.ReasonCAAnswer, `a redirect to "http://127.0.0.1:1/": redirects are not followed`},
		"redirects to a path":        {http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, issue.ReasonCAAnswer, `a redirect to "/elsewhere"`},
		"certificate by another CA":  {signs(testCA(t)), issue.ReasonCAChanged, "but clients trust CA"},
		"certificate by a forged CA": {signs(forge(t, ca)), issue.ReasonCAChanged, "but clients trust CA"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, c.handler)
			remote, clock := remoteAt(t, []*remoteServer{server})
			issued, err := issue.Issue(context.Background(), remote.Sign, withoutKey(ca), wantedBy(service("web")), epoch)
			assert.Zero(t, issued)
			var remoteErr *Error
			require.ErrorAs(t, err, &remoteErr)
			assert.Equal(t, string(c.reason), remoteErr.Reason())
			assert.Equal(t, c.reason, reasonOf(err), "the condition's reason")
			require.ErrorContains(t, err, server.URL+": ")
			require.ErrorContains(t, err, c.says)
			assert.Less(t, len(err.Error()), 500)
			assert.NotContains(t, err.Error(), hex.EncodeToString(authKey))
			assert.NotContains(t, err.Error(), string(authKey))

			clock.advance(time.Hour)
			_, again := issue.Issue(context.Background(), remote.Sign, withoutKey(ca), wantedBy(service("web")), epoch)
			assert.EqualError(t, again, err.Error(), "it goes into a condition: the same as long as the cause is")
		})
	}
}

// Invariant 2 with a remote CA: a certificate that differs from the request is refused.
func TestInvariant2WithARemoteCA(t *testing.T) {
	ca := testCA(t)
	for refusal, change := range map[string]func(c *x509.Certificate, _ *pki.Authority){
		"its names are":               func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames = append(c.DNSNames, "db.shop.svc") },
		"[\"web.shop.svc\"], must be": func(c *x509.Certificate, _ *pki.Authority) { c.DNSNames = []string{"web.shop.svc"} },
		"its IP addresses are":        func(c *x509.Certificate, _ *pki.Authority) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} },
		"must not expire after":       func(c *x509.Certificate, _ *pki.Authority) { c.NotAfter = c.NotAfter.Add(time.Second) },
		"it is not valid before":      func(c *x509.Certificate, _ *pki.Authority) { c.NotBefore = epoch.Add(30 * time.Second) },
		"has expired": func(c *x509.Certificate, _ *pki.Authority) { // cert-manager#8610
			c.NotBefore, c.NotAfter = epoch.Add(-30*time.Minute), epoch.Add(-time.Second)
		},
		"it is a CA":                   func(c *x509.Certificate, _ *pki.Authority) { c.IsCA = true },
		"its key usage is 0x5":         func(c *x509.Certificate, _ *pki.Authority) { c.KeyUsage |= x509.KeyUsageKeyEncipherment },
		"must be serverAuth only":      func(c *x509.Certificate, _ *pki.Authority) { c.ExtKeyUsage = nil },
		"its common name is \"other\"": func(c *x509.Certificate, _ *pki.Authority) { c.Subject.CommonName = "other" },
	} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			remote, _ := remoteAt(t, []*remoteServer{serve(t, signs(ca, change))})
			issued, err := issue.Issue(context.Background(), remote.Sign, withoutKey(ca), wantedBy(service("web")), epoch)
			assert.Zero(t, issued)
			var refused *issue.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, refusal)
			assert.Equal(t, issue.ReasonRefused, reasonOf(err))
			assert.NoError(t, remote.Available(), "the server works: others may get what they ask for")
		})
	}
	shorter := func(c *x509.Certificate, _ *pki.Authority) {
		c.NotBefore, c.NotAfter = c.NotBefore.Add(-time.Minute), c.NotAfter.Add(-time.Hour)
	}
	remote, _ := remoteAt(t, []*remoteServer{serve(t, signs(ca, shorter))})
	_, err := issue.Issue(context.Background(), remote.Sign, withoutKey(ca), wantedBy(service("web")), epoch)
	assert.NoError(t, err, "a shorter lifetime than asked for, and an earlier beginning")
}

// One Remote serves all workers. After a failure of a server, no requests are sent to it but those
// already in progress.
func TestRemoteConcurrently(t *testing.T) {
	ca := testCA(t)
	var works atomic.Bool
	works.Store(true)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if works.Load() {
			signs(ca)(w, r)
		} else {
			answer(503, "")(w, r)
		}
	})
	remote, _ := remoteAt(t, []*remoteServer{server})
	wanted := wantedBy(service("web", api.AnnotationDuration, "1h"))
	all := func(check func(error)) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					_, err := issue.Issue(context.Background(), remote.Sign, withoutKey(ca), wanted, epoch)
					check(err)
				}
			})
		}
		wg.Wait()
	}
	all(func(err error) { assert.NoError(t, err) })
	require.EqualValues(t, 160, server.asked.Load())
	works.Store(false)
	all(func(err error) { assert.ErrorContains(t, err, "answered with status 503") })
	assert.LessOrEqual(t, server.asked.Load(), int32(160+8))
	assert.ErrorContains(t, remote.Available(), "answered with status 503")
}

func TestRemoteInfoAsks(t *testing.T) {
	ca := testCA(t)
	cas := map[string]*pki.Authority{"web": ca, "web-rsa": ca}
	usages := map[string][]string{"web": {"digital signature", "server auth"}, "web-rsa": {"server auth", "signing", "key encipherment"}}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var request info.Req
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
		assert.Equal(t, "/below/api/v1/cfssl/info", r.URL.Path)
		assert.Equal(t, "one-of-many", request.Label)
		fmt.Fprint(w, success(info.Resp{Certificate: string(pki.EncodeCertificates(cas[request.Profile].Certificate)), Usage: usages[request.Profile], ExpiryString: "1h"}))
	})
	remote, _ := remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) { c.URLs[0] += "/below/" })
	got, err := remote.Info(context.Background())
	require.NoError(t, err)
	assert.Equal(t, RemoteInfo{Server: server.URL + "/below/", Issuer: ca.Certificate, Root: ca.Certificate}, RemoteInfo{Server: got.Server, Issuer: got.Issuer, Root: got.Root})
	assert.Empty(t, got.Chain)
	assert.Empty(t, got.Warnings)

	usages["web-rsa"] = nil // as in a server's default profile
	got, err = remote.Info(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []string{server.URL + `/below/: profile "web-rsa" has usages [], must have ["digital signature" "server auth" "key encipherment"]: its certificates are refused`}, got.Warnings)
	usages["web"] = []string{"digital signature", "server auth", "client auth"}
	got, err = remote.Info(context.Background())
	require.NoError(t, err)
	assert.Len(t, got.Warnings, 2)
	usages["web"], usages["web-rsa"] = []string{"digital signature", "server auth"}, []string{"digital signature", "server auth", "key encipherment"}
	cas["web-rsa"] = testCA(t)
	got, err = remote.Info(context.Background())
	require.NoError(t, err)
	require.Len(t, got.Warnings, 1)
	assert.Regexp(t, `profile "web-rsa" signs with CA "CN=servingcert CA 1 \w+" and profile "web" with CA "CN=servingcert CA 1 \w+": must be the same CA`, got.Warnings[0])
}

func TestRemoteInfoErrors(t *testing.T) {
	leaf := issueBy(t, testCA(t), wantedBy(service("web")), epoch).Leaf
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		reason  issue.Reason
	}{
		"garbage": {answer(200, success(map[string]any{"certificate": 7})), issue.ReasonCAAnswer},
		"refused": {answer(400, refusal("bad label")), issue.ReasonCARefused},
		"away":    {answer(503, ""), issue.ReasonUnreachable},
		"a leaf":  {answer(200, success(info.Resp{Certificate: string(pki.EncodeCertificates(leaf))})), issue.ReasonCAUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			remote, _ := remoteAt(t, []*remoteServer{serve(t, c.handler)})
			got, err := remote.Info(context.Background())
			assert.Zero(t, got)
			assert.Equal(t, c.reason, reasonOf(err))
		})
	}
}
