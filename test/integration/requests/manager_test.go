package requests

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// managed is an unmodified certificate.Manager of client-go, as a kubelet has one for
// what it serves.
type managed struct {
	certificate.Manager
	names atomic.Pointer[[]string]
}

// newManager starts a manager that asks for the names as the given user, and keeps its
// certificates in the store.
func newManager(t *testing.T, as kubernetes.Interface, store certificate.Store, names ...string) *managed {
	t.Helper()
	m := &managed{}
	m.names.Store(&names)
	var err error
	m.Manager, err = certificate.NewManager(&certificate.Config{
		ClientsetFn:      func(*tls.Certificate) (kubernetes.Interface, error) { return as, nil },
		GetTemplate:      func() *x509.CertificateRequest { return &x509.CertificateRequest{DNSNames: *m.names.Load()} },
		SignerName:       api.SignerName,
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: store,
	})
	require.NoError(t, err)
	m.Start()
	t.Cleanup(m.Stop)
	return m
}

func newStore(t *testing.T) certificate.Store {
	t.Helper()
	store, err := certificate.NewFileStore("web", t.TempDir(), t.TempDir(), "", "")
	require.NoError(t, err)
	return store
}

// serves waits until the manager has a certificate other than before for exactly these
// names, and checks it as a client would.
func (m *managed) serves(t *testing.T, before *tls.Certificate, names ...string) *tls.Certificate {
	t.Helper()
	var now *tls.Certificate
	harness.Eventually(t, func() error {
		now = m.Current()
		switch {
		case now == nil:
			return errors.New("the manager has no certificate")
		case before != nil && now.Leaf.Equal(before.Leaf):
			return errors.New("the manager has the same certificate as before")
		case !slices.Equal(now.Leaf.DNSNames, names):
			return fmt.Errorf("the manager has a certificate for %q", now.Leaf.DNSNames)
		}
		return nil
	})
	var chain []*x509.Certificate
	for _, der := range now.Certificate {
		c, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		chain = append(chain, c)
	}
	verify(t, chain)
	return now
}

// A manager gets its first certificate while the signer comes later, and another once its
// template changed, with another key.
func TestManager(t *testing.T) {
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	short, long := "web."+ns+".svc", "web."+ns+".svc.cluster.local"
	as := tokenOf(t, ns, newPod(t, ns, "web-1", "web"))
	m := newManager(t, as, newStore(t), short)
	harness.Eventually(t, func() error { return asked(t, ns) })
	assert.Nil(t, m.Current(), "the signer is away")

	startSigner(t)
	first := m.serves(t, nil, short)
	m.names.Store(&[]string{short, long})
	second := m.serves(t, first, short, long)
	assert.NotEqual(t, first.PrivateKey, second.PrivateKey)
}

// A manager that starts with a certificate close to its end asks for the next one.
func TestManagerRotates(t *testing.T) {
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	name := "web." + ns + ".svc"
	store := newStore(t)
	old, err := store.Update(endingSoon(t, name))
	require.NoError(t, err)
	m := newManager(t, tokenOf(t, ns, newPod(t, ns, "web-1", "web")), store, name)
	m.serves(t, old, name)
}

// endingSoon is a certificate and its key in PEM, past the time at which a manager asks
// for the next one.
func endingSoon(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotBefore: time.Now().Add(-100 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	leaf := signertest.Certify(t, template, template, k.Public(), k)
	key, err = pki.EncodeKey(k)
	require.NoError(t, err)
	return pki.EncodeCertificates(leaf), key
}
