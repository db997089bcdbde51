package main

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newCA makes a CA that signs now.
func newCA(t *testing.T) *pki.Authority {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, api.DefaultLimits().Constraints(), epoch.Add(-time.Hour), epoch.Add(8760*time.Hour))
	require.NoError(t, err)
	return &pki.Authority{
		Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: root.NotAfter,
	}
}

func issue(t *testing.T, ca *pki.Authority, names ...string) signer.Issued {
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	wanted := api.Wanted{DNSNames: names, Params: api.Params{KeyAlgorithm: pki.ECDSAP256, Duration: 24 * time.Hour}}
	issued, err := signer.Issue(t.Context(), sign, ca, wanted, epoch)
	require.NoError(t, err)
	return issued
}

// good is a Service of which everything is as it should be.
func good(t *testing.T, ca *pki.Authority) seen {
	issued := issue(t, ca, "*.web.shop.svc", "web.shop.svc")
	return seen{
		host:      "web.shop.svc",
		service:   serviceStatus{Namespace: "shop", Name: "web", Secret: "web-tls", Ready: "True", Reason: "Issued", Leaf: pki.Fingerprint(issued.Leaf)},
		trustName: "shop/" + api.BundleName, bundle: map[string]string{api.BundleKey: string(ca.Bundle.PEM())},
		published: ca.Bundle.Hash(), secretRead: true, secret: issued.CertPEM,
		address: "localhost:8443", dialled: true, served: []*x509.Certificate{issued.Leaf},
	}
}

func TestJudge(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	older := issue(t, ca, "web.shop.svc")
	for name, c := range map[string]struct {
		change func(s *seen)
		now    time.Time
		failed []string // what the findings that failed begin with
	}{
		"good":          {func(*seen) {}, epoch, nil},
		"no condition":  {func(s *seen) { s.service.Ready = "" }, epoch, []string{"Service shop/web: no condition servingcert.dev/Ready yet"}},
		"not ready":     {func(s *seen) { s.service.Ready, s.service.Reason = "False", "SecretConflict" }, epoch, []string{"Service shop/web: not ready: SecretConflict"}},
		"no bundle":     {func(s *seen) { s.bundle = nil }, epoch, []string{"ConfigMap shop/servingcert-ca.crt: missing", "Secret shop/web-tls: there is no bundle", "localhost:8443: there is no bundle"}},
		"garbage in it": {func(s *seen) { s.bundle = map[string]string{api.BundleKey: "x"} }, epoch, []string{"ConfigMap shop/servingcert-ca.crt: ca.crt: CA bundle", "Secret", "localhost"}},
		"an old bundle": {func(s *seen) { s.published = other.Bundle.Hash() }, epoch, []string{"ConfigMap shop/servingcert-ca.crt: holds bundle"}},
		"a stranger's bundle": {
			func(s *seen) { s.bundle[api.BundleKey], s.published = string(other.Bundle.PEM()), other.Bundle.Hash() }, epoch,
			[]string{"Secret shop/web-tls: a client refuses it as web.shop.svc", "localhost:8443: a client refuses it as web.shop.svc"},
		},
		"no Secret":      {func(s *seen) { s.secret = nil }, epoch, []string{"Secret shop/web-tls: missing"}},
		"a damaged one":  {func(s *seen) { s.secret = s.secret[:100] }, epoch, []string{"Secret shop/web-tls: tls.crt: certificate 1"}},
		"another Secret": {func(s *seen) { s.secret = older.CertPEM }, epoch, []string{"Secret shop/web-tls: leaf "}},
		"a root is served": {
			func(s *seen) { s.served = append(s.served, ca.Certificate) }, epoch, []string{"localhost:8443: certificate 2 of the chain is a root"},
		},
		"an old leaf is served": {func(s *seen) { s.served = []*x509.Certificate{older.Leaf} }, epoch, []string{"localhost:8443: leaf "}},
		"another Service's":     {func(s *seen) { s.host = "api.shop.svc" }, epoch, []string{"Secret shop/web-tls: a client refuses it as api.shop.svc", "localhost:8443: a client refuses it as api.shop.svc"}},
		"expired":               {func(*seen) {}, epoch.Add(48 * time.Hour), []string{"Secret shop/web-tls: a client refuses it", "localhost:8443: a client refuses it"}},
		"nobody listens":        {func(s *seen) { s.served, s.dialErr = nil, errors.New("connection refused") }, epoch, []string{"localhost:8443: connection refused"}},
		"may not be read": {func(s *seen) {
			s.secretRead, s.secret, s.secretErr, s.publishedErr = false, nil, errors.New("forbidden"), errors.New("forbidden")
		}, epoch, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := good(t, ca)
			c.change(&s)
			var failed []string
			for _, f := range judge(s, c.now) {
				if f.verdict == verdictFails {
					failed = append(failed, f.says)
				}
			}
			require.Len(t, failed, len(c.failed), "%q", failed)
			for i, want := range c.failed {
				assert.True(t, strings.HasPrefix(failed[i], want), "%q", failed[i])
			}
		})
	}
	t.Run("what may not be read is said", func(t *testing.T) {
		s := good(t, ca)
		s.secretRead, s.secretErr = false, errors.New("forbidden")
		assert.Contains(t, judge(s, epoch), finding{verdictUnknown, "Secret shop/web-tls: may not be read: forbidden"})
	})
}

func TestStatusOf(t *testing.T) {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = "shop", "web"
	_, ok := statusOf(svc)
	assert.False(t, ok, "nothing to do with us")
	svc.Annotations = map[string]string{api.OpenShiftSecretName: "web-tls"}
	_, ok = statusOf(svc)
	assert.False(t, ok, "service-ca's, as far as anybody knows")

	svc.Status.Conditions = append(svc.Status.Conditions, ready("True", "Issued", api.ReadyFacts{Secret: "web-tls", Leaf: strings.Repeat("a", 64)}.Message("names")))
	s, ok := statusOf(svc)
	assert.True(t, ok)
	assert.Equal(t, "web-tls", s.Secret)
	assert.Equal(t, strings.Repeat("a", 64), s.Leaf)

	svc.Annotations = nil
	s, ok = statusOf(svc)
	assert.True(t, ok, "retained")
	assert.Empty(t, s.Secret)
}

func ready(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message}
}
