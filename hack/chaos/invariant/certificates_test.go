package invariant

import (
	"crypto"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

var now = time.Now().Truncate(time.Second)

// fixture is a cluster with one Service, in which all is well.
type fixture struct {
	Cluster
	ca rotatortest.CA
}

func sound(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{ca: rotatortest.NewCA(t, 1, now.Add(-24*time.Hour))}
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "uid-web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"},
	}}
	bundle := string(pki.EncodeCertificates(f.ca.Root))
	f.Cluster = Cluster{Services: []corev1.Service{svc}, Published: bundle, Bundles: map[string]string{"shop": bundle}, Domain: "cluster.local"}
	f.issue(t, "web.shop.svc", "web.shop.svc.cluster.local")
	return f
}

// issue gives the Service a Secret with a certificate for the names.
func (f *fixture) issue(t *testing.T, names ...string) {
	t.Helper()
	pair := f.ca.Issue(t, now.Add(-time.Minute), names...)
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	svc := &f.Services[0]
	f.Secrets = []corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls", OwnerReferences: []metav1.OwnerReference{{Kind: "Service", Name: "web", UID: svc.UID}}},
		Data:       map[string][]byte{"tls.crt": pki.EncodeCertificates(pair.Leaf), "tls.key": key},
	}}
	svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Message: "issued"}, state.Ready{Secret: "web-tls", Leaf: pki.Fingerprint(pair.Leaf)}).Both()
}

func TestCertificates(t *testing.T) {
	f := sound(t)
	require.Empty(t, Certificates(f.Cluster, now))
	second := f.Services[0].DeepCopy()
	second.Name, second.UID = "api", "uid-api"
	other := rotatortest.NewCA(t, 1, now.Add(-24*time.Hour))

	for want, breaks := range map[string]func(*fixture){
		"Service shop/web: has no Secret web-tls":          func(f *fixture) { f.Secrets = nil },
		"Secret shop/stray: no Service asks for it":        func(f *fixture) { f.Secrets = append(f.Secrets, stray()) },
		"the key is not the certificate's":                 func(f *fixture) { f.Secrets[0].Data["tls.key"] = newKey(t) },
		"key: ":                                            func(f *fixture) { f.Secrets[0].Data["tls.key"] = nil },
		"certificate: ":                                    func(f *fixture) { f.Secrets[0].Data["tls.crt"] = []byte("x") },
		"its names are [web.shop.svc], want":               func(f *fixture) { f.issue(t, "web.shop.svc") },
		"want [*.web.shop.svc *.web.shop.svc.cluster.loca": func(f *fixture) { f.Services[0].Spec.ClusterIP = corev1.ClusterIPNone },
		"want [api.shop.svc api.shop.svc.cluster.local we": func(f *fixture) { f.Services = append(f.Services, *second) },
		"under the bundle of the CA's status: ":            func(f *fixture) { f.Published = string(pki.EncodeCertificates(other.Root)) },
		"under the bundle of namespace shop: ":             func(f *fixture) { f.Bundles = nil },
		"Service web does not own it":                      func(f *fixture) { f.Secrets[0].OwnerReferences[0].UID = "x" },
		"Service web is not Ready":                         func(f *fixture) { f.Services[0].Status.Conditions[0].Status = metav1.ConditionFalse },
		"the condition of Service web names leaf": func(f *fixture) {
			old := f.Services[0].Status.Conditions
			f.issue(t, "web.shop.svc", "web.shop.svc.cluster.local")
			f.Services[0].Status.Conditions = old
		},
	} {
		f := sound(t)
		breaks(f)
		got := Certificates(f.Cluster, now)
		require.NotEmpty(t, got, want)
		assert.Contains(t, got[0], want)
	}
	assert.NotEmpty(t, Certificates(f.Cluster, now.Add(10*365*24*time.Hour)), "it has ended")
}

func stray() corev1.Secret {
	return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stray", UID: types.UID("x")}}
}

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	out, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return out
}

func TestSightings(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, now.Add(-24*time.Hour))
	first, second := ca.Issue(t, now, "a"), ca.Issue(t, now, "a")
	seen := []Sighting{See(0, "shop/a", first.Leaf), See(0, "shop/a", second.Leaf), See(1, "shop/a", first.Leaf)}
	assert.Empty(t, Keys(seen), "an old certificate may come back")
	assert.Empty(t, Generations(seen, nil))

	same := reissue(t, first.Leaf)
	assert.Equal(t, []string{"one key is in 2 certificates, of shop/a and shop/b"}, Keys(append(seen, See(1, "shop/b", same))))
	assert.Equal(t, []string{"one key is in 2 certificates, of shop/a"}, Keys(append(seen, See(1, "shop/a", same))))

	one := Sighting{Issuer: "servingcert CA 2 aaaaaaaa", IssuerKey: "a"}
	other := Sighting{Issuer: "servingcert CA 2 bbbbbbbb", IssuerKey: "b"}
	assert.Equal(t, []string{"generation 2, epoch 0: 2 CAs signed"}, Generations([]Sighting{one, other}, map[string]bool{"c": true}))
	assert.Empty(t, Generations([]Sighting{one, other}, map[string]bool{"b": true}), "an interim CA is no generation")
	other.Epoch = 1
	assert.Empty(t, Generations([]Sighting{one, other}, nil), "what was put back has another successor")
}

// reissue returns another certificate for the key.
func reissue(t *testing.T, leaf *x509.Certificate) *x509.Certificate {
	t.Helper()
	ca := rotatortest.NewCA(t, 1, now.Add(-24*time.Hour))
	other := ca.Issue(t, now, "b").Leaf
	changed := *other
	changed.RawSubjectPublicKeyInfo = leaf.RawSubjectPublicKeyInfo
	return &changed
}
