package succession

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/skip"
)

// member is what a server and a client of one cluster have.
type member struct {
	pair  tls.Certificate
	roots *x509.CertPool
}

// cluster starts servingcert with the CA that is in the import Secret, which bring makes.
func cluster(t *scene, bring func(t *scene)) member {
	t.Helper()
	bring(t)
	start(t, "signer", fast...)
	start(t, "trust")
	makeShop(t, "shop", 1, nil)
	require.Equal(t, ca.OriginImport, stored(t).Generations[0].Origin)
	return shopOf(t)
}

// shopOf returns what pods of the shop mount.
func shopOf(t *scene) member {
	t.Helper()
	secret, err := t.admin.CoreV1().Secrets("shop").Get(t.Context(), secretOf(0), metav1.GetOptions{})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(shopBundle(t))))
	return member{pair, roots}
}

func shopBundle(t *scene) string {
	t.Helper()
	cm, err := t.admin.CoreV1().ConfigMaps("shop").Get(t.Context(), api.BundleName, metav1.GetOptions{})
	require.NoError(t, err)
	return cm.Data[api.BundleKey]
}

// dial shakes hands with a server that has the pair, as a client that trusts the roots.
func dial(t testing.TB, pair tls.Certificate, roots *x509.CertPool) error {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: waitFor}, "tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "web-0.shop.svc"})
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// Two clusters, each with an intermediate under one root: one made by the commands of
// docs/fleet.md, one by cert-manager from the Certificate of docs/import-ca.md. Their clients
// verify each other's servers, also when cert-manager has renewed its intermediate.
func TestClustersUnderOneRoot(test *testing.T) {
	other := fresh(test)
	file := runBlocks(other, "../../../docs/fleet.md", "With openssl", "eu-west")
	west := cluster(other, bringFiles(file))
	t := another(test)
	var manager *certManager
	north := cluster(t, func(t *scene) {
		manager = startCertManager(t)
		manager.issuer(t, "example-root", file("ca.crt"), file("root-key.pem"))
		manager.intermediate(t, "../../../docs/import-ca.md", "eu-north")
	})

	assert.Equal(t, []string{"eu-west"}, issuer(t, west).Subject.OrganizationalUnit)
	assert.Equal(t, []string{"eu-north"}, issuer(t, north).Subject.OrganizationalUnit)
	require.NoError(t, dial(t, west.pair, north.roots))
	require.NoError(t, dial(t, north.pair, west.roots))
	assert.True(t, west.roots.Equal(north.roots), "one root")
	stranger := newAuthority(t, "Another Root", pki.ECDSAP256, nil)
	none := x509.NewCertPool()
	none.AddCert(stranger.cert)
	require.ErrorContains(t, dial(t, west.pair, none), "certificate signed by unknown authority")

	manager.renew(t, api.DefaultNamespace, "servingcert-ca")
	require.Eventually(t, func() bool {
		generations := stored(t).Generations
		return len(generations) == 2 && generations[1].Origin == ca.OriginImport
	}, waitFor, tick, "the intermediate that cert-manager has renewed is the next CA")
	require.Eventually(t, func() bool { return !issuer(t, shopOf(t)).Equal(issuer(t, north)) }, waitFor, tick, "and signs")
	renewed := shopOf(t)
	assert.Equal(t, []string{"eu-north"}, issuer(t, renewed).Subject.OrganizationalUnit)
	require.NoError(t, dial(t, renewed.pair, west.roots), "clients of the other cluster need nothing new")
	require.NoError(t, dial(t, renewed.pair, north.roots))
}

// issuer is the certificate that is served after the leaf.
func issuer(t testing.TB, s member) *x509.Certificate {
	t.Helper()
	require.Len(t, s.pair.Certificate, 2, "leaf and intermediate")
	cert, err := x509.ParseCertificate(s.pair.Certificate[1])
	require.NoError(t, err)
	return cert
}

// The commands for step do what those for openssl do.
func TestIntermediateByStep(test *testing.T) {
	skip.WithoutPrograms(test, "step")
	t := fresh(test)
	file := runBlocks(t, "../../../docs/fleet.md", "With step", "eu-south")
	south := cluster(t, bringFiles(file))
	made := issuer(t, south)
	assert.Equal(t, []string{"eu-south"}, made.Subject.OrganizationalUnit)
	assert.Equal(t, -1, made.MaxPathLen)
	assert.True(t, made.PermittedDNSDomainsCritical)
	require.NoError(t, dial(t, south.pair, south.roots))
}

// bringFiles makes the import Secret of files.
func bringFiles(file func(name string) []byte) func(t *scene) {
	return func(t *scene) {
		t.Helper()
		_, err := t.admin.CoreV1().Secrets(api.DefaultNamespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: api.CAImportName},
			Data:       map[string][]byte{corev1.TLSCertKey: file("tls.crt"), corev1.TLSPrivateKeyKey: file("tls.key"), api.BundleKey: file("ca.crt")},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// runBlocks runs the blocks that are marked as sh below a heading of a page, for a cluster
// of this name. It returns what reads a file that they made.
func runBlocks(t testing.TB, page, heading, cluster string) func(name string) []byte {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n### "+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n### ")
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?)\n```").FindAllStringSubmatch(section, -1)
	require.Len(t, blocks, 2, "one for the root, and one for an intermediate")
	dir := t.TempDir()
	for _, block := range blocks {
		cmd := exec.Command("bash", "-euc", block[1])
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CLUSTER="+cluster)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return data
	}
}

// The signer publishes extra roots and the rotator distributes them; what cannot be read
// is a warning and takes no other root away. The CA has the cluster's id in its subject,
// and another id waits for the next CA.
func TestExtraRootsAndClusterID(test *testing.T) {
	t := fresh(test)
	signing := start(t, "signer", append(fast, "--cluster-id=eu-west")...)
	start(t, "trust")
	makeShop(t, "shop", 1, nil)
	assert.Equal(t, []string{"eu-west"}, stored(t).Generations[0].Root.Subject.OrganizationalUnit)

	other := newAuthority(t, "Another cluster's root", pki.ECDSAP256, nil)
	extra := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: api.ExtraRootsName}, Data: map[string]string{"eu-north.crt": string(pki.EncodeCertificates(other.cert))},
	}
	maps := t.admin.CoreV1().ConfigMaps(api.DefaultNamespace)
	extra, err := maps.Create(t.Context(), extra, metav1.CreateOptions{})
	require.NoError(t, err)
	holds := func(want bool) func() bool {
		return func() bool {
			return strings.Contains(shopBundle(t), string(pki.EncodeCertificates(other.cert))) == want
		}
	}
	require.Eventually(t, holds(true), waitFor, tick)
	theirs := newAuthority(t, "web-0", pki.ECDSAP256, other, func(c *x509.Certificate) {
		c.DNSNames, c.IsCA, c.KeyUsage = []string{"web-0.shop.svc"}, false, x509.KeyUsageDigitalSignature
	})
	here := shopOf(t)
	require.NoError(t, dial(t, tls.Certificate{Certificate: [][]byte{theirs.cert.Raw}, PrivateKey: theirs.key}, here.roots), "a server of the other cluster")
	require.NoError(t, dial(t, here.pair, here.roots), "one of this")

	extra.Data["eu-south.crt"] = "none"
	extra, err = maps.Update(t.Context(), extra, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "a warning", func(cm *corev1.ConfigMap) bool {
		return strings.Contains(cm.Data[api.CAWarning], api.CAExtraRootsInvalid+": ConfigMap "+api.ExtraRootsName) && strings.Contains(cm.Data[api.CAWarning], "key eu-south.crt: ")
	})
	require.True(t, holds(true)(), "the other root stays")
	delete(extra.Data, "eu-south.crt")
	_, err = maps.Update(t.Context(), extra, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "no warning", func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAWarning] == "" })
	require.NoError(t, maps.Delete(t.Context(), api.ExtraRootsName, metav1.DeleteOptions{}))
	require.Eventually(t, holds(false), waitFor, tick)

	signing.stop(t)
	start(t, "signer", append(fast, "--cluster-id=eu-north")...)
	ask(t, "cluster id")
	signedBy(t, "2")
	generations := stored(t).Generations
	require.Len(t, generations, 2, "the new id alone replaced nothing")
	assert.Equal(t, "requested: cluster id", generations[1].Why)
	assert.Equal(t, []string{"eu-north"}, generations[1].Root.Subject.OrganizationalUnit)
	for _, g := range generations {
		verifies(t, served(t, "shop", 0), g.Root)
	}
}
