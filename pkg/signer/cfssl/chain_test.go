package cfssl

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cloudflare/cfssl/info"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
	"github.com/servingcert/servingcert/test/signertest"
)

// below returns a CA under the given one, changed as wanted.
func below(t *testing.T, ca *pki.Authority, name string, change func(*x509.Certificate)) *pki.Authority {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: epoch.Add(-day), NotAfter: epoch.Add(100 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	change(template)
	cert := signertest.Certify(t, template, ca.Certificate, key.Public(), ca.Key)
	return &pki.Authority{Issuer: pki.Issuer{Certificate: cert}, Key: key, SignUntil: cert.NotAfter}
}

func asItIs(*x509.Certificate) {}

func TestAnchor(t *testing.T) {
	root, other := testCA(t), testCA(t)
	middle := below(t, root, "middle", asItIs)
	issuer := below(t, middle, "issuer", asItIs)
	narrow := below(t, root, "narrow", func(c *x509.Certificate) { c.MaxPathLenZero = true })
	tooDeep := below(t, narrow, "too deep", asItIs)
	expired := below(t, root, "expired", func(c *x509.Certificate) { c.NotAfter = epoch.Add(-time.Hour) })
	clients := below(t, root, "clients", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	noCA := below(t, root, "no CA", func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature })
	noSigner := below(t, root, "no signer", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign })
	stranger := forge(t, root)
	oldRoot := newCA(t, clusterNames, epoch.Add(-10*day), epoch.Add(-day))
	c := func(of ...*pki.Authority) (out []*x509.Certificate) {
		for _, a := range of {
			out = append(out, a.Certificate)
		}
		return out
	}
	for name, test := range map[string]struct {
		issuer *pki.Authority
		given  []*x509.Certificate
		chain  []*x509.Certificate
		root   *pki.Authority // nil: an error that contains
		says   string
	}{
		"a root, unpinned":           {root, nil, c(), root, ""},
		"a root, pinned":             {root, c(root), c(), root, ""},
		"a root among others":        {root, c(other, root), c(), root, ""},
		"another root is pinned":     {root, c(other), nil, nil, "does not chain to a trusted root"},
		"a forged root":              {stranger, c(root), nil, nil, "does not chain to a trusted root"},
		"an intermediate":            {middle, c(root), c(middle), root, ""},
		"two":                        {issuer, c(root, middle), c(issuer, middle), root, ""},
		"two in any order":           {issuer, c(middle, other, issuer, root), c(issuer, middle), root, ""},
		"one is missing":             {issuer, c(root), nil, nil, "does not chain to a trusted root"},
		"an intermediate, unpinned":  {middle, nil, nil, nil, "is not a root: --cfssl-bundle must name a file with its root"},
		"path length 0":              {narrow, c(root), c(narrow), root, ""},
		"below path length 0":        {tooDeep, c(root, narrow), nil, nil, "exceeds the path length that a CA above it allows"},
		"expired":                    {expired, c(root), nil, nil, `certificate "CN=expired" has expired or is not valid yet`},
		"an expired root":            {oldRoot, nil, nil, nil, "has expired or is not valid yet"},
		"for clients":                {clients, c(root), nil, nil, "incompatible key usage"},
		"no CA":                      {noCA, c(root), nil, nil, "is not a CA certificate"},
		"a CA that signs no leaves":  {noSigner, c(root), nil, nil, "is not a CA certificate"},
		"its own leaf, as a pinning": {noCA, c(root, noCA), nil, nil, "is not a CA certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			chain, anchored, err := remote.Anchor(test.issuer.Certificate, test.given, "--cfssl-bundle must name a file with its root", epoch)
			if test.root == nil {
				require.ErrorContains(t, err, test.says)
				assert.Equal(t, issue.ReasonCAUntrusted, reasonOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.root.Certificate, anchored)
			require.Equal(t, test.chain, append(c(), chain...))
			leaf, err := issue.Issue(t.Context(), plainSign(), &pki.Authority{
				Issuer: pki.Issuer{Certificate: test.issuer.Certificate, Chain: chain}, Key: test.issuer.Key,
				Anchors: []*x509.Certificate{anchored}, SignUntil: test.issuer.SignUntil,
			}, wantedBy(service("web")), epoch)
			require.NoError(t, err, "what it signs is good with that chain under that root")
			certs, err := pki.ParseCertificates(leaf.CertPEM)
			require.NoError(t, err)
			assert.Equal(t, test.chain, append(c(), certs[1:]...))
		})
	}
}

// A client with the root that Info returns verifies the leaf that Sign returns.
func TestRemoteUnderAnIntermediate(t *testing.T) {
	root := testCA(t)
	middle := below(t, root, "middle", asItIs)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/cfssl/info" {
			fmt.Fprint(w, success(info.Resp{Certificate: string(pki.EncodeCertificates(middle.Certificate)), Usage: []string{"signing", "server auth"}}))
			return
		}
		signs(middle)(w, r)
	})
	remote, _ := remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) { c.Bundle = []*x509.Certificate{root.Certificate} })
	got, err := remote.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, middle.Certificate, got.Issuer)
	ca := &pki.Authority{Issuer: pki.Issuer{Certificate: got.Issuer, Chain: got.Chain}, Anchors: []*x509.Certificate{got.Root}, SignUntil: got.Issuer.NotAfter}
	require.NoError(t, sign(t, remote, ca))
}
