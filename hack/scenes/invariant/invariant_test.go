package invariant

import (
	"crypto"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

var now = time.Now().Truncate(time.Second)

// cluster is a Service, its Secret, and the bundles.
type cluster struct {
	svc     corev1.Service
	secret  corev1.Secret
	bundles map[string]string
}

// sound is a cluster with one Service, whose certificate has the names, in which all is well.
func sound(t *testing.T, names ...string) cluster {
	t.Helper()
	ca := rotatortest.NewCA(t, 1, now.Add(-24*time.Hour))
	pair := ca.Issue(t, now.Add(-time.Minute), names...)
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "uid-web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"},
	}}
	svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Message: "issued"}, state.Ready{Secret: "web-tls", Leaf: pki.Fingerprint(pair.Leaf)}).Both()
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls", OwnerReferences: []metav1.OwnerReference{{Kind: "Service", Name: "web", UID: svc.UID}}},
		Data:       map[string][]byte{"tls.crt": pki.EncodeCertificates(pair.Leaf), "tls.key": key},
	}
	bundle := string(pki.EncodeCertificates(ca.Root))
	return cluster{svc, secret, map[string]string{"the CA's status": bundle, "the namespace": bundle}}
}

func TestCertificates(t *testing.T) {
	names := []string{"web.shop.svc", "web.shop.svc.cluster.local"}
	violations := func(c cluster, now time.Time, more ...corev1.Secret) []string {
		return Certificates([]corev1.Service{c.svc}, append(more, c.secret), c.bundles, now)
	}
	c, other := sound(t, names...), sound(t, names...)
	require.Empty(t, violations(c, now))
	assert.NotEmpty(t, violations(c, now.Add(10*365*24*time.Hour)), "it has ended")
	stray := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stray"}}
	assert.Equal(t, []string{"Secret shop/stray: no Service asks for it"}, violations(c, now, stray))
	assert.Equal(t, []string{"Service shop/web, Secret shop/web-tls: it does not exist"}, Certificates([]corev1.Service{c.svc}, nil, c.bundles, now))
	for want, breaks := range map[string]func(*cluster){
		"the key is not the certificate's":   func(c *cluster) { c.secret.Data["tls.key"] = other.secret.Data["tls.key"] },
		"key: ":                              func(c *cluster) { c.secret.Data["tls.key"] = nil },
		"certificate: ":                      func(c *cluster) { c.secret.Data["tls.crt"] = []byte("x") },
		"the names are [web.shop.svc], want": func(c *cluster) { *c = sound(t, "web.shop.svc") },
		"want [*.web.shop.svc *.web.shop.svc.cluster.loca": func(c *cluster) { c.svc.Spec.ClusterIP = corev1.ClusterIPNone },
		"under the bundle of the CA's status: ":            func(c *cluster) { c.bundles["the CA's status"] = other.bundles["the namespace"] },
		"under the bundle of the namespace: ":              func(c *cluster) { c.bundles["the namespace"] = "" },
		"the Service does not own it":                      func(c *cluster) { c.secret.OwnerReferences[0].UID = "x" },
		"the Service is not Ready":                         func(c *cluster) { c.svc.Status.Conditions[0].Status = metav1.ConditionFalse },
		"the condition names leaf":                         func(c *cluster) { c.svc.Status = other.svc.Status },
	} {
		c := sound(t, names...)
		breaks(&c)
		got := violations(c, now)
		require.Len(t, got, 1, want)
		assert.Contains(t, got[0], want)
	}
}

func TestSightings(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, now.Add(-24*time.Hour))
	first, second := ca.Issue(t, now, "a").Leaf, ca.Issue(t, now, "a").Leaf
	seen := []Sighting{See(0, first), See(0, second), See(1, first)}
	assert.Empty(t, Keys(seen), "an old certificate may come back")
	assert.Empty(t, Generations(seen, nil))
	again := *ca.Issue(t, now, "b").Leaf
	again.RawSubjectPublicKeyInfo = first.RawSubjectPublicKeyInfo
	assert.Len(t, Keys(append(seen, See(1, &again))), 1)

	one := Sighting{Issuer: "servingcert CA 2 aaaaaaaa", IssuerKey: "a"}
	other := Sighting{Issuer: "servingcert CA 2 bbbbbbbb", IssuerKey: "b"}
	assert.Equal(t, []string{"several CAs signed as one generation: a, b"}, Generations([]Sighting{one, other}, map[string]bool{"c": true}))
	assert.Empty(t, Generations([]Sighting{one, other}, map[string]bool{"b": true}), "an interim CA is no generation")
	other.Epoch = 1
	assert.Empty(t, Generations([]Sighting{one, other}, nil), "what was put back has another successor")
}

func TestForeign(t *testing.T) {
	before := map[string]Version{"Secret a/x": {"1", "10"}, "Secret b/x": {"2", "11"}, "Secret c/x": {"3", "12"}, "Secret d/x": {"4", "13"}}
	after := map[string]Version{"Secret a/x": {"1", "10"}, "Secret b/x": {"9", "11"}, "Secret c/x": {"3", "20"}, "Secret e/x": {"5", "14"}}
	assert.Empty(t, Foreign(before, before))
	assert.Equal(t, []string{"Secret b/x was replaced", "Secret c/x was written", "Secret d/x is gone"}, Foreign(before, after))
}

func TestLeaks(t *testing.T) {
	before := map[string]Usage{"signer": Usage{100, 1}.Max(Usage{1, 40 << 20})}
	assert.Empty(t, Leaks(before, map[string]Usage{"signer": {155, 92 << 20}}))
	assert.Equal(t, []string{"signer has 156 goroutines, had 100: at most 155"}, Leaks(before, map[string]Usage{"signer": {156, 1}}))
	assert.Equal(t, []string{"signer has 93 MiB resident, had 40: at most 92"}, Leaks(before, map[string]Usage{"signer": {1, 93 << 20}}))
}

func TestClassify(t *testing.T) {
	assert.Equal(t, Done, Classify(nil))
	assert.Equal(t, Away, Classify(errors.New("connection refused")))
	assert.Equal(t, Away, Classify(apierrors.NewTimeoutError("etcd", 1)))
	assert.Equal(t, Refused, Classify(apierrors.NewInternalError(errors.New(`failed calling webhook "pods.servingcert.dev": EOF`))))
	assert.Equal(t, Refused, Classify(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`admission webhook "x" denied the request: no`))))
	assert.Greater(t, Refused, Away, "a scene that tolerates the worse one tolerates both")
}
