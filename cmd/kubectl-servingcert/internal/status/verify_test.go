package status

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
	"github.com/servingcert/servingcert/test/signertest"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newCA returns a CA that can sign at epoch.
func newCA(t *testing.T) *pki.Authority {
	return signertest.NewCA(t, api.DefaultLimits().Constraints(), epoch.Add(-time.Hour), epoch.Add(8760*time.Hour))
}

func issueBy(t *testing.T, ca *pki.Authority, names ...string) issue.Issued {
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	wanted := api.Wanted{DNSNames: names, Params: api.Params{KeyAlgorithm: pki.ECDSAP256, Duration: 24 * time.Hour}}
	issued, err := issue.Issue(t.Context(), sign, ca, wanted, epoch)
	require.NoError(t, err)
	return issued
}

// good is the situation of a Service without problems.
func good(t *testing.T, ca *pki.Authority) VerifySituation {
	issued := issueBy(t, ca, "*.web.shop.svc", "web.shop.svc")
	return VerifySituation{
		Host:      "web.shop.svc",
		Service:   Service{Namespace: "shop", Name: "web", Secret: "web-tls", Ready: "True", Reason: "Issued", Leaf: pki.Fingerprint(issued.Leaf)},
		TrustName: "shop/" + api.BundleName, Bundle: map[string]string{api.BundleKey: string(ca.Bundle.PEM())},
		Published: ca.Bundle.Hash(), Secret: issued.CertPEM,
		Address: "localhost:8443", Dialled: true, Served: []*x509.Certificate{issued.Leaf},
	}
}

func TestVerify(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	older := issueBy(t, ca, "web.shop.svc")
	for name, c := range map[string]struct {
		change func(s *VerifySituation)
		now    time.Time
		failed []string // what the findings that failed begin with
	}{
		"good":          {func(*VerifySituation) {}, epoch, nil},
		"no condition":  {func(s *VerifySituation) { s.Service.Ready = "" }, epoch, []string{"Service shop/web: no condition servingcert.dev/Ready yet"}},
		"not ready":     {func(s *VerifySituation) { s.Service.Ready, s.Service.Reason = "False", "SecretConflict" }, epoch, []string{"Service shop/web: not ready: SecretConflict"}},
		"no bundle":     {func(s *VerifySituation) { s.Bundle = nil }, epoch, []string{"ConfigMap shop/servingcert-ca.crt: missing", "Secret shop/web-tls: there is no bundle", "localhost:8443: there is no bundle"}},
		"garbage in it": {func(s *VerifySituation) { s.Bundle = map[string]string{api.BundleKey: "x"} }, epoch, []string{"ConfigMap shop/servingcert-ca.crt: ca.crt: CA bundle", "Secret", "localhost"}},
		"an old bundle": {func(s *VerifySituation) { s.Published = other.Bundle.Hash() }, epoch, []string{"ConfigMap shop/servingcert-ca.crt: holds bundle"}},
		"another CA's bundle": {
			func(s *VerifySituation) {
				s.Bundle[api.BundleKey], s.Published = string(other.Bundle.PEM()), other.Bundle.Hash()
			}, epoch,
			[]string{"Secret shop/web-tls: a client rejects it as web.shop.svc", "localhost:8443: a client rejects it as web.shop.svc"},
		},
		"no Secret":      {func(s *VerifySituation) { s.Secret = nil }, epoch, []string{"Secret shop/web-tls: missing"}},
		"a damaged one":  {func(s *VerifySituation) { s.Secret = s.Secret[:100] }, epoch, []string{"Secret shop/web-tls: tls.crt: certificate 1"}},
		"another Secret": {func(s *VerifySituation) { s.Secret = older.CertPEM }, epoch, []string{"Secret shop/web-tls: leaf "}},
		"a root is served": {
			func(s *VerifySituation) { s.Served = append(s.Served, ca.Certificate) }, epoch, []string{"localhost:8443: certificate 2 of the chain is a root"},
		},
		"an old leaf is served": {func(s *VerifySituation) { s.Served = []*x509.Certificate{older.Leaf} }, epoch, []string{"localhost:8443: leaf "}},
		"another Service's":     {func(s *VerifySituation) { s.Host = "api.shop.svc" }, epoch, []string{"Secret shop/web-tls: a client rejects it as api.shop.svc", "localhost:8443: a client rejects it as api.shop.svc"}},
		"expired":               {func(*VerifySituation) {}, epoch.Add(48 * time.Hour), []string{"Secret shop/web-tls: a client rejects it", "localhost:8443: a client rejects it"}},
		"connection refused":    {func(s *VerifySituation) { s.Served, s.DialErr = nil, errors.New("connection refused") }, epoch, []string{"localhost:8443: connection refused"}},
		"may not be read": {func(s *VerifySituation) {
			s.Secret, s.SecretErr, s.PublishedErr = nil, errors.New("forbidden"), errors.New("forbidden")
		}, epoch, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := good(t, ca)
			c.change(&s)
			var failed []string
			for _, f := range Verify(s, c.now) {
				if f.Verdict == VerdictFailed {
					failed = append(failed, f.Text)
				}
			}
			require.Len(t, failed, len(c.failed), "%q", failed)
			for i, want := range c.failed {
				assert.True(t, strings.HasPrefix(failed[i], want), "%q", failed[i])
			}
		})
	}
	t.Run("the handshake is reported", func(t *testing.T) {
		s := good(t, ca)
		s.Handshake = probe.Handshake{Version: tls.VersionTLS13, Group: tls.X25519MLKEM768, Signature: x509.ECDSAWithSHA256}
		findings := Verify(s, epoch)
		assert.Equal(t, Finding{VerdictOK, "localhost:8443: TLS 1.3, key exchange X25519MLKEM768, leaf signed with ECDSA-SHA256"}, findings[len(findings)-1])
	})
	t.Run("the proxy is reported", func(t *testing.T) {
		s := good(t, ca)
		s.Service.Proxy = []string{"sc-any-http", "sc-tls-8080"}
		text := Verify(s, epoch)[0].Text
		assert.True(t, strings.HasSuffix(text, "; TLS is requested from the proxy in its pods, at targetPorts sc-any-http, sc-tls-8080"), text)
	})
	t.Run("a forbidden bundle is reported", func(t *testing.T) {
		s := good(t, ca)
		s.Bundle, s.BundleErr = nil, errors.New("forbidden")
		findings := Verify(s, epoch)
		assert.Contains(t, findings, Finding{VerdictUnknown, "ConfigMap shop/servingcert-ca.crt: cannot be read: forbidden"})
		unknown := "it is unknown whether clients trust it, because ConfigMap shop/servingcert-ca.crt may not be read"
		assert.Contains(t, findings, Finding{VerdictUnknown, "Secret shop/web-tls: " + unknown})
		assert.Contains(t, findings, Finding{VerdictUnknown, "localhost:8443: " + unknown})
		failed := func(f Finding) bool { return f.Verdict == VerdictFailed }
		assert.False(t, slices.ContainsFunc(findings, failed), "%s", findings)
		for _, now := range []time.Time{epoch.Add(48 * time.Hour), epoch.Add(-48 * time.Hour)} {
			assert.True(t, slices.ContainsFunc(Verify(s, now), failed), "its validity is known")
		}
		s.Host = "api.shop.svc"
		assert.True(t, slices.ContainsFunc(Verify(s, epoch), failed), "its names are known")
	})
	t.Run("a forbidden Secret is reported", func(t *testing.T) {
		s := good(t, ca)
		s.SecretErr = errors.New("forbidden")
		assert.Contains(t, Verify(s, epoch), Finding{VerdictUnknown, "Secret shop/web-tls: cannot be read: forbidden"})
	})
}

// Verify reports what the rotator has seen the pods serve, and if it has not probed them.
// TestVerifyOfAnotherIssuer: the Secret's own roots, the bundle and public roots count, whatever the names.
func TestVerifyOfAnotherIssuer(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	pool := func(ca *pki.Authority) *x509.CertPool {
		p := x509.NewCertPool()
		p.AddCert(ca.Certificate)
		return p
	}
	theirs := issueBy(t, other, "other.shop.svc")
	for name, c := range map[string]struct {
		change  func(s *VerifySituation)
		now     time.Time
		verdict string
		want    string
	}{
		"ca.crt of the Secret":    {func(s *VerifySituation) { s.SecretCA = pool(other) }, epoch, VerdictOK, "roots that verify it: secret"},
		"public roots":            {func(s *VerifySituation) { s.Public = pool(other) }, epoch, VerdictOK, "roots that verify it: public"},
		"the bundle":              {func(s *VerifySituation) { s.Bundle[api.BundleKey] = string(other.Bundle.PEM()) }, epoch, VerdictOK, "roots that verify it: cluster"},
		"none":                    {func(*VerifySituation) {}, epoch, VerdictUnknown, "the Secret has no root in ca.crt"},
		"another root in ca.crt":  {func(s *VerifySituation) { s.SecretCA = pool(ca) }, epoch, VerdictFailed, "from another CA"},
		"the bundle is forbidden": {func(s *VerifySituation) { s.SecretCA, s.BundleErr = pool(ca), errors.New("forbidden") }, epoch, VerdictUnknown, "because ConfigMap shop/servingcert-ca.crt may not be read"},
		"the Secret is forbidden": {func(s *VerifySituation) { s.SecretErr = errors.New("forbidden") }, epoch, VerdictUnknown, "localhost:8443: it is unknown whether clients trust it, because the Secret may not be read"},
		"expired":                 {func(s *VerifySituation) { s.SecretCA = pool(other) }, epoch.Add(100 * time.Hour), VerdictFailed, "expired at"},
		"the signer's, retained":  {func(s *VerifySituation) { s.SecretCA, s.Service.StillOurs = pool(other), true }, epoch, VerdictFailed, "a client rejects it as web.shop.svc"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good(t, ca)
			s.Service.External, s.Service.Leaf, s.Secret, s.Served = true, pki.Fingerprint(theirs.Leaf), theirs.CertPEM, []*x509.Certificate{theirs.Leaf}
			c.change(&s)
			findings := Verify(s, c.now)
			found := slices.ContainsFunc(findings, func(f Finding) bool {
				return f.Verdict == c.verdict && strings.Contains(f.Text, c.want)
			})
			assert.True(t, found, "%s", findings)
		})
	}
}

func TestVerifyServing(t *testing.T) {
	outdated := service("web", metav1.ConditionTrue, api.ServingCurrent, "said")
	outdated.Serving.Outdated = true
	unseen := service("web", metav1.ConditionTrue, "", "")
	unseen.Serving = nil
	for _, tt := range []struct {
		service Service
		want    Finding
	}{
		{service("web", metav1.ConditionTrue, api.ServingCurrent, "said"), Finding{VerdictOK, "pods of Service shop/web: said"}},
		{service("web", metav1.ConditionFalse, api.ServingNoPort, "said"), Finding{VerdictFailed, "pods of Service shop/web: NoPort: said"}},
		{service("web", metav1.ConditionFalse, api.ServingNoConsumers, "said"), Finding{VerdictFailed, "pods of Service shop/web: NoConsumers: said"}},
		{service("web", metav1.ConditionUnknown, api.ServingUnreachable, "said"), Finding{VerdictNotSeen, "pods of Service shop/web: Unreachable: said"}},
		{outdated, Finding{VerdictNotSeen, "pods of Service shop/web: the rotator has not reported yet what they serve: its last report is about an earlier certificate, or other ports: Current"}},
		{unseen, Finding{VerdictNotSeen, "pods of Service shop/web: the rotator has not reported yet what they serve"}},
	} {
		assert.Equal(t, []Finding{tt.want}, checkServing(VerifySituation{Service: tt.service}))
	}
	assert.Equal(t, "Outdated", outdated.Serving.Column())
	assert.Equal(t, []string{"shop/web"}, CountUptake([]Service{outdated}, noon).Waiting)
}

// Without a rotator, its last report says nothing about what the pods serve now.
func TestVerifyWithoutARotator(t *testing.T) {
	reported, unseen := service("web", metav1.ConditionTrue, api.ServingCurrent, "said"), service("web", metav1.ConditionTrue, "", "")
	unseen.Serving = nil
	none := "no pods rotator runs: Lease sys/servingcert-rotator: no replica holds it"
	assert.Equal(t, []Finding{{VerdictNotSeen, "pods of Service shop/web: " + none + "; its last report may be out of date: Current: said"}},
		checkServing(VerifySituation{Service: reported, NoRotator: none}))
	assert.Equal(t, []Finding{{VerdictNotSeen, "pods of Service shop/web: " + none}}, checkServing(VerifySituation{Service: unseen, NoRotator: none}))
	assert.Equal(t, []Finding{
		{VerdictOK, "pods of Service shop/web: said"},
		{VerdictUnknown, "pods of Service shop/web: cannot check whether a rotator runs, so this may be out of date: this user may not list Leases in sys"},
	}, checkServing(VerifySituation{Service: reported, RotatorUnknown: "this user may not list Leases in sys"}))
	kept := unseen
	kept.retained = "web-tls"
	assert.Equal(t, []Finding{{VerdictNotSeen, "pods of Service shop/web: the Service no longer requests the certificate, and none of its pods was seen to serve it"}},
		checkServing(VerifySituation{Service: kept}))
	assert.Empty(t, checkServing(VerifySituation{NoRotator: none}), "nothing is expected of a Service without a certificate")
}

// A condition is about the ports from when it was written.
func TestAConditionOfOtherPortsIsOutdated(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	said := state.Serving{Leaf: rotatortest.Leaf(2), Since: noon, Ports: api.NeedsHash(svc)}
	svc.Status.Conditions = append(svc.Status.Conditions, state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent}, said).Both()...)
	s, _ := ServiceOf(svc)
	assert.Equal(t, "True", s.Serving.Column())
	svc.Spec.Ports[0].TargetPort = intstr.FromString("sc-tls-99999")
	s, _ = ServiceOf(svc)
	assert.Equal(t, "Outdated", s.Serving.Column())
}

func TestProtocolOfAnAddress(t *testing.T) {
	db := api.ProbeTarget{Port: 5432, Target: intstr.FromString("db"), Protocol: starttls.Postgres}
	mail := api.ProbeTarget{Port: 25, Target: intstr.FromInt32(2525), Protocol: starttls.SMTP}
	for _, tt := range []struct {
		targets []api.ProbeTarget
		port    string
		want    starttls.Protocol
	}{
		{nil, "5432", ""},
		{[]api.ProbeTarget{db}, "15432", starttls.Postgres}, // forwarded from another port
		{[]api.ProbeTarget{db, mail}, "25", starttls.SMTP},
		{[]api.ProbeTarget{db, mail}, "2525", starttls.SMTP},
		{[]api.ProbeTarget{db, mail}, "8443", ""},
	} {
		assert.Equal(t, tt.want, VerifySituation{Targets: tt.targets}.Protocol(tt.port), "%v %s", tt.targets, tt.port)
	}
}
