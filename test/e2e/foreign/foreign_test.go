// Package foreign has tests in which libraries of others read what servingcert writes.
package foreign

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/test/rotatortest"
	"github.com/servingcert/servingcert/test/signertest"
)

// TestTheHeaderOfAnIdentity: go-proxyproto finds the identity in a header of the PROXY protocol, and that it was verified.
func TestTheHeaderOfAnIdentity(t *testing.T) {
	id := pki.SPIFFEID{TrustDomain: "cluster.example.com", Namespace: "shop", ServiceAccount: "cart"}
	for _, addresses := range [][2]string{{"10.0.0.1:40000", "10.0.0.2:15444"}, {"[fd00::1]:40000", "[fd00::2]:15444"}} {
		for version, name := range map[uint16]string{tls.VersionTLS12: "TLSv1.2", tls.VersionTLS13: "TLSv1.3"} {
			for _, resumed := range []bool{false, true} {
				header := proxy.Header(netip.MustParseAddrPort(addresses[0]), netip.MustParseAddrPort(addresses[1]), proxy.HeaderIdentity(id, version, resumed)...)
				sent := bufio.NewReader(bytes.NewReader(append(header, "GET /"...)))
				read, err := proxyproto.Read(sent)
				require.NoError(t, err)
				assert.Equal(t, addresses[0], read.SourceAddr.String())
				assert.Equal(t, addresses[1], read.DestinationAddr.String())
				fields, err := read.TLVs()
				require.NoError(t, err)
				ssl, ok := tlvparse.FindSSL(fields)
				require.True(t, ok, "%v", fields)
				assert.True(t, ssl.ClientSSL() && ssl.Verified() && ssl.ClientCertSess())
				assert.Equal(t, !resumed, ssl.ClientCertConn())
				got, _ := ssl.SSLVersion()
				assert.Equal(t, name, got)
				i := slices.IndexFunc(fields, func(f proxyproto.TLV) bool { return f.Type == proxyproto.PP2_TYPE_MIN_CUSTOM })
				require.GreaterOrEqual(t, i, 0, "%v", fields)
				assert.Equal(t, id.String(), string(fields[i].Value))
				rest, err := io.ReadAll(sent)
				require.NoError(t, err)
				assert.Equal(t, "GET /", string(rest))
			}
		}
	}
}

// The clients and the server of docs/identities.md talk to each other: those in Go by a copy of the page's code.
func TestThePageOfIdentities(t *testing.T) {
	page, err := os.ReadFile("../../../docs/identities.md")
	require.NoError(t, err)
	here, err := os.ReadFile("foreign_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		if !strings.Contains(strings.ReplaceAll(string(here), "\n\t", "\n"), block[1]) {
			t.Errorf("the copy in this file differs from:\n%s", block[1])
		}
	}

	dir := t.TempDir()
	ca := rotatortest.NewCA(t, 1, time.Now())
	trusted := filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(trusted, pki.EncodeCertificates(ca.Root), 0o600))
	rootKey := signertest.Key(t, pki.ECDSAP256)
	root, err := pki.NewRoot(rootKey, 1, pki.ForClients("cluster.example.com"), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	clientRoots := filepath.Join(dir, api.IdentityRoots("cluster.example.com"))
	require.NoError(t, os.WriteFile(clientRoots, pki.EncodeCertificates(root), 0o600))
	address := serve(t, ca.Issue(t, time.Now(), "web.shop.svc"), clientRoots)

	for account, admitted := range map[string]bool{"cart": true, "other": false} {
		folder := t.TempDir()
		writeIdentity(t, folder, account, root, rootKey)
		t.Setenv(api.EnvIdentityFolder, folder)
		t.Setenv("TLS_CA_FILE", trusted)
		err := get(address)
		assert.Equal(t, admitted, err == nil, "%s: %v", account, err)
		err = getByGoSPIFFE(address, folder, trusted)
		assert.Equal(t, admitted, err == nil, "%s: %v", account, err)
	}
}

// writeIdentity writes the files of an identity, as the kubelet does.
func writeIdentity(t *testing.T, folder, account string, root *x509.Certificate, by crypto.Signer) {
	t.Helper()
	key := signertest.Key(t, pki.ECDSAP256)
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	leaf := signertest.Certify(t, &x509.Certificate{
		SerialNumber: serial, NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.example.com", Path: "/ns/shop/sa/" + account}},
	}, root, key.Public(), by)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	cert := pki.EncodeCertificates(leaf)
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": keyPEM, api.IdentityBundle: slices.Concat(keyPEM, cert)} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
}

// serve runs the page's server.
func serve(t *testing.T, pair tls.Certificate, clientRoots string) (address string) {
	t.Helper()
	roots, err := x509bundle.Load(spiffeid.RequireTrustDomainFromString("cluster.example.com"), clientRoots)
	require.NoError(t, err)
	cart := spiffeid.RequireFromString("spiffe://cluster.example.com/ns/shop/sa/cart")
	server := &http.Server{TLSConfig: tlsconfig.MTLSWebServerConfig(&pair, roots, tlsconfig.AuthorizeID(cart))}
	server.ErrorLog = log.New(io.Discard, "", 0) // refused clients
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// get makes a request by the page's client.
func get(address string) error {
	show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pem, err := os.ReadFile(os.Getenv("SPIFFE_CREDENTIAL_FOLDER") + "/credential-bundle.private-key.x509.pem")
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(pem, pem)
		return &pair, err
	}
	bundle, err := os.ReadFile(os.Getenv("TLS_CA_FILE"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, GetClientCertificate: show}}}
	return getBy(client, address)
}

// getByGoSPIFFE does the same with what the page names of go-spiffe.
func getByGoSPIFFE(address, folder, trusted string) error {
	svid, err := x509svid.Load(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		return err
	}
	bundle, err := os.ReadFile(trusted)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return getBy(&http.Client{Transport: &http.Transport{TLSClientConfig: tlsconfig.MTLSWebClientConfig(svid, roots)}}, address)
}

// getBy makes a request to the server, at the address.
func getBy(client *http.Client, address string) error {
	transport := client.Transport.(*http.Transport)
	transport.Dial = func(network, _ string) (net.Conn, error) { return net.Dial(network, address) } //nolint:staticcheck // one connection
	transport.DisableKeepAlives = true
	response, err := client.Get("https://web.shop.svc/")
	if err != nil {
		return err
	}
	return response.Body.Close()
}
