package cfssl

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/cloudflare/cfssl/config"
	cfssllog "github.com/cloudflare/cfssl/log"
	cfsslsigner "github.com/cloudflare/cfssl/signer"
	"github.com/cloudflare/cfssl/signer/local"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

func TestMain(m *testing.M) {
	cfssllog.Level = cfssllog.LevelError // otherwise it logs every certificate
	m.Run()
}

func cfsslSign(t *testing.T) issue.Sign {
	sign, err := NewLocal()
	require.NoError(t, err)
	return sign
}

// requestFor returns a request for a new key.
func requestFor(t require.TestingT, algorithm pki.KeyAlgorithm, csr *x509.CertificateRequest) issue.SigningRequest {
	key, err := pki.GenerateKey(algorithm)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(nil, csr, key)
	require.NoError(t, err)
	return issue.SigningRequest{
		CSR:          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		DNSNames:     []string{"*.web.shop.svc", "web.shop.svc", "web.shop.svc.cluster.local"},
		KeyAlgorithm: algorithm,
		NotBefore:    pki.NotBefore(epoch),
		NotAfter:     pki.NotBefore(epoch).Add(day),
	}
}

// A certificate by cfssl equals one by crypto/x509 in every field but the random serial number and
// the signature.
func TestCFSSLDiffersFromPlainX509InSerialAndSignatureOnly(t *testing.T) {
	sign := cfsslSign(t)
	withIPs := newCA(t, pki.Constraints{PermittedDNS: clusterNames.PermittedDNS, PermitIPs: true}, epoch.Add(-day), epoch.Add(1000*day))
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for _, algorithm := range pki.KeyAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			request := requestFor(t, algorithm, &x509.CertificateRequest{})
			for _, request.IPs = range [][]netip.Addr{nil, {v4}, {v4, v6}} {
				got, err := sign(context.Background(), withIPs, request)
				require.NoError(t, err)
				want, err := plainSign()(context.Background(), withIPs, request)
				require.NoError(t, err)
				require.NotEqual(t, want.SerialNumber, got.SerialNumber)
				require.Equal(t, withoutChance(want), withoutChance(got), "%v", request.IPs)
			}
		})
	}
}

// withoutChance returns the certificate without the random fields and those derived from them.
func withoutChance(c *x509.Certificate) x509.Certificate {
	out := *c
	out.SerialNumber = big.NewInt(0)
	out.Raw, out.RawTBSCertificate, out.Signature = nil, nil, nil
	return out
}

// The certificate contains only the key of a CSR.
func TestCFSSLTakesOnlyTheKeyFromTheCSR(t *testing.T) {
	csr := &x509.CertificateRequest{DNSNames: []string{"db.shop.svc"}, IPAddresses: []net.IP{{10, 0, 0, 1}}, EmailAddresses: []string{"a@db.shop.svc"}}
	csr.Subject.CommonName = "db.shop.svc"
	request := requestFor(t, pki.ECDSAP256, csr)
	leaf, err := cfsslSign(t)(context.Background(), testCA(t), request)
	require.NoError(t, err)
	assert.ElementsMatch(t, request.DNSNames, leaf.DNSNames)
	assert.Empty(t, leaf.IPAddresses)
	assert.Empty(t, leaf.EmailAddresses)
	assert.Empty(t, leaf.Subject.String())

	request.DNSNames = nil
	leaf, err = cfsslSign(t)(context.Background(), testCA(t), request)
	require.NoError(t, err)
	assert.Empty(t, leaf.DNSNames, "asked for no name, it must not fall back to the CSR's")
}

// A certificate has no common name such as HOST@TIME, and no short names: the subject is empty, and
// neither the Service's name alone nor with its namespace is in it, or would verify
// (docs/limits.md, "Why the subject is empty").
func TestNoHostAtTimeAndNoShortNames(t *testing.T) {
	ca, sign := testCA(t), cfsslSign(t)
	hostAtTime := func(ctx context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		csr := &x509.CertificateRequest{}
		csr.Subject.CommonName = "web-0@1772366400"
		request.CSR = requestFor(t, pki.ECDSAP256, csr).CSR
		return sign(ctx, ca, request)
	}
	leaf, err := hostAtTime(context.Background(), ca, requestFor(t, pki.ECDSAP256, &x509.CertificateRequest{}))
	require.NoError(t, err)
	assert.Empty(t, leaf.Subject.String())

	issued, err := issue.Issue(context.Background(), sign, ca, wantedBy(service("web")), epoch)
	require.NoError(t, err)
	assert.Empty(t, issued.Leaf.Subject.String())
	assert.Equal(t, []string{"web.shop.svc", "web.shop.svc.cluster.local"}, issued.Leaf.DNSNames)
	for _, short := range []string{"web", "web.shop"} {
		require.ErrorContains(t, issued.Leaf.VerifyHostname(short), "not "+short, short)
	}
}

// cfssl signs names outside the CA's name constraints. The check after signing refuses these
// certificates.
func TestNamesOutsideTheConstraintsAreRefusedAfterSigning(t *testing.T) {
	ca, sign := testCA(t), cfsslSign(t)
	for _, name := range []string{"web", "web.shop", "example.com", "*.example.com", "svc.example.com", "web.shop.svc.cluster.local.example.com", "xsvc", "xcluster.local"} {
		wanted := wantedBy(service("web"))
		wanted.DNSNames = []string{name}
		_, err := issue.Issue(context.Background(), sign, ca, wanted, epoch)
		var refused *issue.RefusedError
		require.ErrorAs(t, err, &refused, name)
		require.ErrorContains(t, err, "is not permitted by any constraint", name)
	}
	wanted := wantedBy(service("web"))
	wanted.IPs = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	_, err := issue.Issue(context.Background(), sign, ca, wanted, epoch)
	assert.ErrorContains(t, err, "is not permitted by any constraint", "every IP address")
}

func TestCFSSLRefusesAnUnknownProfile(t *testing.T) {
	policy, err := config.LoadConfig([]byte(localPolicy))
	require.NoError(t, err)
	ca := testCA(t)
	signer, err := local.NewSigner(ca.Key, ca.Certificate, cfsslsigner.DefaultSigAlgo(ca.Key), policy.Signing)
	require.NoError(t, err)
	for _, profile := range []string{"", "default", "server", "Serving"} {
		request := cfsslRequest(requestFor(t, pki.ECDSAP256, &x509.CertificateRequest{}))
		request.Profile = profile
		_, err := signer.Sign(request)
		assert.Error(t, err, "profile %q", profile)
	}
}

func decoded(t *testing.T, text []byte) []byte {
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	return block.Bytes
}

func TestCFSSLErrors(t *testing.T) {
	request := requestFor(t, pki.ECDSAP256, &x509.CertificateRequest{})
	noCSR, changed := request, request
	noCSR.CSR = []byte("no CSR")
	changed.CSR = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: decoded(t, request.CSR)})
	for want, request := range map[string]issue.SigningRequest{"the CSR is not PEM": noCSR, "cfssl: ": changed} {
		_, err := cfsslSign(t)(context.Background(), testCA(t), request)
		require.ErrorContains(t, err, want)
	}

	for _, answer := range []string{"", "not a cert", "no CSR"} {
		_, err := signLeaf(answers{cert: []byte(answer)}, request)
		assert.ErrorContains(t, err, "cfssl: parse certificate: ")
	}
	_, err := signLeaf(answers{err: assert.AnError}, request)
	assert.ErrorIs(t, err, assert.AnError)
}

// answers is a cfssl signer that always answers the same.
type answers struct {
	cfsslsigner.Signer
	cert []byte
	err  error
}

func (a answers) Sign(cfsslsigner.SignRequest) ([]byte, error) { return a.cert, a.err }

// Several workers use one Sign while the CA changes: each certificate is by the requested CA. The
// race detector watches.
func TestSignConcurrentlyUnderChangingCAs(t *testing.T) {
	sign := cfsslSign(t)
	cas := []*pki.Authority{testCA(t), testCA(t), testCA(t)}
	wanted := wantedBy(service("web", api.AnnotationDuration, "1h"))
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 10 {
				ca := cas[(worker+i)%len(cas)]
				issued, err := issue.Issue(context.Background(), sign, ca, wanted, epoch.Add(time.Duration(i)*time.Second))
				if assert.NoError(t, err) {
					assert.NoError(t, issued.Leaf.CheckSignatureFrom(ca.Certificate))
				}
			}
		})
	}
	wg.Wait()
}

func TestIdentities(t *testing.T) {
	sign, clients := cfsslSign(t), newCA(t, pki.ForClients("example.com"), epoch.Add(-day), epoch.Add(1000*day))
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.RSA2048} {
		request := requestFor(t, algorithm, &x509.CertificateRequest{DNSNames: []string{"web.shop.svc"}})
		request.DNSNames = nil
		request.Identity = pki.SPIFFEID{TrustDomain: "example.com", Namespace: "shop", ServiceAccount: "cart"}
		leaf, err := sign(context.Background(), clients, request)
		require.NoError(t, err)
		require.NoError(t, issue.Check(leaf, leaf.PublicKey, clients, request, epoch))

		_, err = sign(context.Background(), testCA(t), request)
		require.ErrorContains(t, err, "does not sign", "the serving CA has no clients")
		serving := requestFor(t, algorithm, &x509.CertificateRequest{})
		_, err = sign(context.Background(), clients, serving)
		require.ErrorContains(t, err, "does not sign", "the CA for clients has no servers")
		request.Identity.ServiceAccount = "other"
		require.ErrorContains(t, issue.Check(leaf, leaf.PublicKey, clients, request, epoch), "its identity is")
	}
}
