package succession

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// authority is a CA that somebody else made.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	root *authority // nil if it is one
}

// newAuthority makes a CA with a key of the algorithm, signed by above or by
// itself, as openssl does unless it is told more.
func newAuthority(t testing.TB, name string, algorithm pki.KeyAlgorithm, above *authority, change ...func(*x509.Certificate)) *authority {
	t.Helper()
	key, err := pki.GenerateKey(algorithm)
	require.NoError(t, err)
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Country: []string{"NL"}, Organization: []string{"Example"}, CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(5, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	by := above
	if by == nil {
		by = &authority{cert: template, key: key}
	} else {
		template.NotAfter = above.cert.NotAfter
	}
	for _, fn := range change {
		fn(template)
	}
	cert := signertest.Certify(t, template, by.cert, key.Public(), by.key)
	return &authority{cert, key, above}
}

// forImport is the data of the Secret: the CA with its root at the end, as
// cert-manager and most instructions for openssl have it.
func (a *authority) forImport(t testing.TB, keyForm func(testing.TB, crypto.Signer) []byte) map[string][]byte {
	t.Helper()
	chain := []*x509.Certificate{a.cert}
	root := a
	for root.root != nil {
		root = root.root
		chain = append(chain, root.cert)
	}
	return map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(chain...), corev1.TLSPrivateKeyKey: keyForm(t, a.key), api.BundleKey: pki.EncodeCertificates(root.cert),
	}
}

func pkcs8(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	data, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return data
}

// traditional is PKCS #1 or SEC 1: what openssl genrsa -traditional, openssl
// ecparam and cert-manager (unless told to write PKCS #8) write.
func traditional(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(key)
		require.NoError(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	}
	t.Fatalf("%T has no traditional form", key)
	return nil
}

// bring writes the import Secret, in place of the one that is there.
func bring(t *scene, data map[string][]byte) {
	t.Helper()
	takeAway(t)
	_, err := t.admin.CoreV1().Secrets(api.DefaultNamespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: api.CAImportName}, Type: corev1.SecretTypeTLS, Data: data,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func takeAway(t *scene) {
	t.Helper()
	err := t.admin.CoreV1().Secrets(api.DefaultNamespace).Delete(t.Context(), api.CAImportName, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
}

// A CA that a person brings becomes the next generation by the road of every
// other, twice, and one made here follows it when that is asked for: for clients
// that hold the first root and are never told of another, too.
func TestImport(test *testing.T) {
	t := fresh(test)
	signer := start(t, "signer", fast...)
	rotator := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now)
	first := stored(t).Generations[0].Root

	root := newAuthority(t, "Example Root", pki.RSA2048, nil)
	issuing := newAuthority(t, "Example Issuing CA", pki.ECDSAP256, root)
	bring(t, issuing.forImport(t, traditional))
	done := signedBy(t, "2")
	assert.Equal(t, 2, strings.Count(done.Data[api.BundleKey], "BEGIN CERTIFICATE"))
	for _, step := range []string{cacontroller.EventPrepared, cacontroller.EventTrusted, cacontroller.EventPromoted} {
		requireSaid(t, step)
	}
	for i := range services {
		chain := served(t, "shop", i)
		require.Len(t, chain, 3, "leaf, intermediate, and the root's key signed by generation 1")
		assert.True(t, chain[1].Equal(issuing.cert))
		assert.Equal(t, root.cert.RawSubject, chain[2].RawSubject)
		assert.Equal(t, first.RawSubject, chain[2].RawIssuer)
		verifies(t, chain, root.cert)
		verifies(t, chain, first)
	}
	tr.requireNoFailure(t)

	invalidImports(t, issuing)
	tr.requireNoFailure(t)

	// As cert-manager renews it: the same name, another key.
	bring(t, newAuthority(t, "Example Issuing CA", pki.ECDSAP256, root).forImport(t, traditional))
	signedBy(t, "3")
	assert.Len(t, served(t, "shop", 0), 3, "under the same root")
	tr.requireNoFailure(t)
	second := newAuthority(t, "Example Root 2", pki.RSA2048, nil)
	bring(t, second.forImport(t, traditional))
	signedBy(t, "4")
	tr.requireNoFailure(t)

	out, err := cli(t, "rotate-ca", "--reason", "back", "--timeout=3m")
	require.NoError(t, err)
	assert.Contains(t, out, "generation 5")
	signedBy(t, "5")
	state := stored(t)
	assert.Equal(t, ca.OriginOwn, state.Generations[4].Origin)
	assert.Equal(t, pki.Fingerprint(second.cert), state.Import, "the Secret is still there, and is not imported again")
	chain := served(t, "shop", 0)
	require.Len(t, chain, 5, "three crosses and the intermediate of generation 3")
	for _, g := range state.Generations {
		verifies(t, chain, g.Root)
	}
	tr.requireNoFailure(t)
	assertNoKeys(t, signer.Log.String()+rotator.Log.String())
	for _, key := range [][]byte{traditional(t, issuing.key), traditional(t, second.key)} {
		line := strings.Split(string(key), "\n")[1]
		assert.NotContains(t, signer.Log.String(), line)
	}
}

// A CA that is there before servingcert is the first generation. This one has path
// lengths, as CAs of organisations often have: it can sign no cross-certificate, so
// that what follows it is for clients that take up the new root.
func TestImportBeforeTheFirstStart(test *testing.T) {
	t := fresh(test)
	root := newAuthority(t, "Example Root", pki.RSA2048, nil, pathLength(1))
	issuing := newAuthority(t, "Example Issuing CA", pki.RSA2048, root, pathLength(0))
	bring(t, issuing.forImport(t, pkcs8))
	start(t, "signer", fast...)
	start(t, "trust")
	makeShop(t, "shop", 3, nil)
	tr := startTraffic(t, "shop", 3, time.Now, takingUp...)
	state := stored(t)
	require.Len(t, state.Generations, 1)
	assert.Equal(t, ca.OriginImport, state.Generations[0].Origin)
	chain := served(t, "shop", 0)
	require.Len(t, chain, 2)
	assert.True(t, chain[1].Equal(issuing.cert))

	ask(t, "back")
	signedBy(t, "2")
	tr.issuedBy(t, "2")
	assert.Len(t, served(t, "shop", 0), 1)
	tr.requireNoFailure(t)
}

func pathLength(n int) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = n, n == 0 }
}

// invalidImports brings what is no CA to be used: it is said, and nothing else
// changes; nor does anything when the Secret of the CA in use is deleted.
func invalidImports(t *scene, inUse *authority) {
	t.Helper()
	before, leaf := secret(t), served(t, "shop", 0)[0]
	good := newAuthority(t, "Another Root", pki.ECDSAP256, nil)
	over := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	lasting := func(c *x509.Certificate) { c.NotAfter = time.Now().AddDate(1, 0, 0) }
	with := func(key string, value []byte) map[string][]byte {
		data := good.forImport(t, pkcs8)
		data[key] = value
		return data
	}
	for _, c := range []struct {
		name, says string
		data       map[string][]byte
	}{
		{"garbage", "tls.crt: must hold the CA's certificate", with(corev1.TLSCertKey, []byte("garbage"))},
		{"no root", "ca.crt: must hold one certificate", with(api.BundleKey, nil)},
		{"the key of another", "the private key does not belong to the certificate", with(corev1.TLSPrivateKeyKey, pkcs8(t, inUse.key))},
		{"the root of another", "is not self-signed", with(api.BundleKey, pki.EncodeCertificates(inUse.cert))},
		{"expired", "expired", newAuthority(t, "Expired", pki.ECDSAP256, nil, over).forImport(t, pkcs8)},
		{"under an expired root", "it expires at", newAuthority(t, "Below", pki.ECDSAP256, newAuthority(t, "Expired", pki.ECDSAP256, nil, over), lasting).forImport(t, pkcs8)},
	} {
		bring(t, c.data)
		warned := eventually(t, c.name, func(cm *corev1.ConfigMap) bool {
			return strings.Contains(cm.Data[api.CAWarning], api.CAImportInvalid+": Secret "+api.CAImportName+" is not imported") && strings.Contains(cm.Data[api.CAWarning], c.says)
		})
		assert.Empty(t, warned.Data[api.CAProblem], c.name)
		assert.Equal(t, "2", warned.Data[api.CAGeneration], c.name)
	}
	requireSaid(t, api.CAImportInvalid)
	takeAway(t)
	eventually(t, "nothing is wrong any more", func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAWarning] == "" })
	assert.Equal(t, before.Data, secret(t).Data)
	assert.Equal(t, before.ResourceVersion, secret(t).ResourceVersion, "nothing was written")
	assert.True(t, leaf.Equal(served(t, "shop", 0)[0]))
}

// imported is a signer whose first CA is the one that is brought, without an API
// server.
func imported(t *testing.T, secret map[string][]byte, now time.Time) *pki.Authority {
	t.Helper()
	brought, err := ca.ParseImport(secret)
	require.NoError(t, err)
	limits := api.DefaultLimits()
	s := ca.Situation{
		Parameters: ca.Parameters{MaxDuration: limits.MaxDuration, Constraints: limits.Constraints(), Domain: limits.ClusterDomain}.WithDefaults(),
		Import:     &brought, Now: now,
	}
	state, data, err := ca.Decide(s).Apply(s)
	require.NoError(t, err)
	require.Equal(t, ca.OriginImport, state.Generations[0].Origin)
	s.Secret = data
	return ca.Decide(s).Authority
}

// A CA with a key of each algorithm signs for leaves of each.
func TestImportWithKeysOfEachAlgorithm(t *testing.T) {
	t.Parallel()
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	for _, of := range slices.DeleteFunc(pki.KeyAlgorithms(), pki.KeyAlgorithm.IsMLDSA) { // one with such a key is refused
		root := newAuthority(t, "Example Root", of, nil)
		authority := imported(t, root.forImport(t, pkcs8), time.Now())
		for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.Ed25519, pki.RSA2048, pki.MLDSA44} {
			wanted := api.Wanted{DNSNames: []string{"web.shop.svc"}, Params: api.Params{KeyAlgorithm: algorithm, Duration: time.Hour}}
			issued, err := issue.Issue(t.Context(), sign, authority, wanted, time.Now())
			require.NoError(t, err, "%s by %s", algorithm, of)
			assert.NoError(t, issued.Leaf.CheckSignatureFrom(root.cert))
		}
	}
}
