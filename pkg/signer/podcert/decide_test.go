package podcert

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

var epoch = signertest.Epoch

func csrOf(t *testing.T, algorithm pki.KeyAlgorithm) []byte {
	t.Helper()
	return signertest.CSR(t, signertest.Key(t, algorithm))
}

// web is a Service whose pods make their keys.
func web() *corev1.Service {
	svc := signertest.Service("web", api.AnnotationKeySource, "pod")
	svc.Spec.Selector = map[string]string{"app": "web"}
	return svc
}

// tooLarge is a Service as in the cache: without the selector, so that the pods that it selects are
// not known.
func tooLarge() *corev1.Service {
	svc := web()
	for i := range 64 {
		svc.Spec.Selector[fmt.Sprint("label-", i)] = "x"
	}
	return api.StripService(svc, signer.Keep(svc))
}

// ordinary is a valid request, which gets signed.
func ordinary(t *testing.T) Situation {
	t.Helper()
	day := int32(86400)
	return Situation{
		Now: epoch, OptedIn: true, Limits: api.DefaultLimits(), MaxDuration: 24 * time.Hour, Authority: signertest.CA(t),
		Request: FactsOf(&certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "req-1", UID: "request", ResourceVersion: "7"},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: api.SignerName, PodName: "web-1", PodUID: "pod", NodeName: "node-1", ServiceAccountName: "default",
				MaxExpirationSeconds: &day, StubPKCS10Request: csrOf(t, pki.ECDSAP256),
			},
		}),
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "default"},
		},
		Services: []*corev1.Service{web()},
	}
}

type reasoned struct {
	error
	reason string
}

func (r reasoned) Reason() string { return r.reason }

// settled gives a Service that asks for keys of pods the condition that the signer writes under
// the CA while the namespace is opted in.
func settled(t *testing.T, ca *pki.Authority, limits api.Limits, svc *corev1.Service) {
	t.Helper()
	svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod)
	said := signer.UnnamedStatusUpdate(signer.Situation{Now: epoch, OptedIn: true, Authority: ca, Limits: limits, Requesters: []*corev1.Service{svc}})
	require.Len(t, said.Services, 1)
	svc.Status.Conditions = said.Services[0].Ready.Both()
}

func TestDecide(t *testing.T) {
	now := metav1.NewTime(epoch)
	ca := signertest.CA(t)
	hadPodKeys, forged, later := web(), web(), web()
	settled(t, ca, api.DefaultLimits(), hadPodKeys)
	settled(t, signertest.CA(t), api.DefaultLimits(), forged)
	settled(t, ca, api.DefaultLimits(), later)
	later.Annotations[api.AnnotationExtraDNSNames] = "more.web.shop.svc"
	told := hadPodKeys.DeepCopy()
	told.Status.Conditions[0].Status, told.Status.Conditions[0].Reason, told.Status.Conditions[0].Message = metav1.ConditionFalse, api.ReasonNotOptedIn, "x"
	for name, c := range map[string]struct {
		change  func(s *Situation)
		verdict Verdict
		reason  string
		again   time.Duration
	}{
		"ordinary":                 {func(*Situation) {}, Sign, "", 0},
		"answered, or for another": {func(s *Situation) { s.Request.Pending = false }, Ignore, "", 0},
		"the pod is gone":          {func(s *Situation) { s.Pod = nil }, Ignore, "", 0},
		"the pod is another":       {func(s *Situation) { s.Pod.UID = "again" }, Ignore, "", 0},
		"the pod is being deleted": {func(s *Situation) { s.Pod.DeletionTimestamp = &now }, Ignore, "", 0},
		"the namespace is going":   {func(s *Situation) { s.Terminating = true }, Ignore, "", 0},
		"another node":             {func(s *Situation) { s.Pod.Spec.NodeName = "node-2" }, Deny, "WrongPod", 0},
		"another ServiceAccount":   {func(s *Situation) { s.Pod.Spec.ServiceAccountName = "admin" }, Deny, "WrongPod", 0},
		"options":                  {func(s *Situation) { s.Request.Options = []string{"a/b"} }, Deny, "InvalidUnverifiedUserAnnotations", 0},
		"no CSR":                   {func(s *Situation) { s.Request.CSR = nil }, Wait, "KubeletTooOld", 0},
		"a CSR that is none":       {func(s *Situation) { s.Request.CSR = []byte("x") }, Deny, "UnsupportedKeyType", 0},
		"not opted in":             {func(s *Situation) { s.OptedIn = false }, Deny, "NamespaceNotOptedIn", 0},
		"no longer opted in": {func(s *Situation) {
			s.OptedIn, s.Services, s.Authority = false, []*corev1.Service{hadPodKeys}, ca
		}, Sign, "", 0},
		"no longer opted in, under the next CA": {func(s *Situation) {
			s.OptedIn, s.Services, s.Authority.Older = false, []*corev1.Service{hadPodKeys}, []pki.Issuer{ca.Issuer}
		}, Sign, "", 0},
		"no longer opted in, more names": {func(s *Situation) { s.OptedIn, s.Services, s.Authority = false, []*corev1.Service{later}, ca }, Wait, "NamespaceNotOptedIn", 0},
		"never opted in, forged":         {func(s *Situation) { s.OptedIn, s.Services, s.Authority = false, []*corev1.Service{forged}, ca }, Wait, "NamespaceNotOptedIn", 0},
		"nothing shows that it was":      {func(s *Situation) { s.OptedIn, s.Services = false, []*corev1.Service{told} }, Wait, "NamespaceNotOptedIn", 0},
		"no longer opted in, before the CA is known": {func(s *Situation) {
			s.OptedIn, s.Services = false, []*corev1.Service{hadPodKeys}
			s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CAPending"}
		}, Ignore, "", signer.CARetry},
		"no longer opted in, and back to a Secret": {func(s *Situation) {
			s.OptedIn, s.Services = false, []*corev1.Service{web()}
			s.Services[0].Annotations[api.AnnotationKeySource] = "secret"
			s.Services[0].Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Retained"}}
		}, Wait, "NamespaceNotOptedIn", 0},
		"not opted in, another Service was": {func(s *Situation) {
			other := hadPodKeys.DeepCopy()
			other.Name, other.Spec.Selector = "other", map[string]string{"app": "other"}
			s.OptedIn, s.Services = false, []*corev1.Service{web(), other}
		}, Deny, "NamespaceNotOptedIn", 0},
		"the CA is being read":        {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CAPending"} }, Ignore, "", signer.CARetry},
		"the CA is lost":              {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CALost"} }, Wait, "CALost", signer.CARetry},
		"the clocks differ":           {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "ClockSkew"} }, Wait, "ClockSkew", signer.CARetry},
		"the remote CA is away":       {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CAUnreachable"} }, Wait, "CAUnreachable", signer.CARetry},
		"no CA, and no reason":        {func(s *Situation) { s.Authority, s.AuthorityErr = nil, errors.New("x") }, Wait, "CAUnavailable", signer.CARetry},
		"no Service":                  {func(s *Situation) { s.Services = nil }, Wait, "NoService", 0},
		"another Service":             {func(s *Situation) { s.Services[0].Spec.Selector["app"] = "other" }, Wait, "NoService", 0},
		"a Service without selector":  {func(s *Situation) { s.Services[0].Spec.Selector = nil }, Wait, "NoService", 0},
		"a Service that is refused":   {func(s *Situation) { s.Services[0].Annotations[api.AnnotationDuration] = "x" }, Wait, "InvalidAnnotation", 0},
		"a Service that is too large": {func(s *Situation) { s.Services[0] = tooLarge() }, Wait, "TooLarge", 0},
		"two that are too large":      {func(s *Situation) { s.Services = []*corev1.Service{tooLarge(), tooLarge()} }, Wait, "TooLarge", 0},
		"another is too large":        {func(s *Situation) { s.Services = append(s.Services, tooLarge()) }, Sign, "", 0},
		"another is refused": {func(s *Situation) {
			s.Services[0].Annotations[api.AnnotationDuration] = "x"
			s.Services = append(s.Services, tooLarge())
		}, Wait, "InvalidAnnotation", 0},
		"too large, never opted in": {func(s *Situation) { s.OptedIn, s.Services[0] = false, tooLarge() }, Deny, "NamespaceNotOptedIn", 0},
		"too large, no longer opted in": {func(s *Situation) {
			s.OptedIn, s.Services[0] = false, tooLarge()
			s.Services[0].Status = hadPodKeys.Status
		}, Wait, "NamespaceNotOptedIn", 0},
		"a Service of a Secret": {func(s *Situation) {
			delete(s.Services[0].Annotations, api.AnnotationKeySource)
		}, Sign, "", 0},
		"names that must wait": {func(s *Situation) {
			s.Authority = signertest.NewCA(t, pki.Constraints{PermittedDNS: []string{"example.com"}}, epoch.Add(-time.Hour), epoch.Add(100*signertest.Day))
		}, Wait, "WaitingForTrust", 0},
		"the CA ends in an hour": {func(s *Situation) { s.Now = s.Authority.Certificate.NotAfter.Add(-time.Hour) }, Sign, "", 0},
		"the CA ends too soon": {func(s *Situation) {
			s.Now = s.Authority.Certificate.NotAfter.Add(-58 * time.Minute).Add(time.Second)
		}, Wait, "CAEndsTooSoon", signer.CARetry},
	} {
		t.Run(name, func(t *testing.T) {
			s := ordinary(t)
			c.change(&s)
			d := Decide(s)
			assert.Equal(t, c.verdict, d.Verdict, "%s: %s", d.Reason, d.Message)
			assert.Equal(t, c.reason, d.Reason)
			if c.verdict == Wait || c.verdict == Deny {
				assert.NotEmpty(t, d.Message)
			}
			want := time.Time{}
			if c.again > 0 {
				want = s.Now.Add(c.again)
			}
			assert.Equal(t, want, d.NextAt)
		})
	}
}

// The message about a Service that is too large names the limit that it exceeds.
func TestTheBoundIsNamed(t *testing.T) {
	s := ordinary(t)
	s.Services = []*corev1.Service{tooLarge()}
	assert.Equal(t, `Service "web" requests a certificate, but is too large to know whether it selects the pod: spec.selector: "65 labels": must be at most 64`, Decide(s).Message)
}

// A pod of a headless Service has a name of its own, and not that of another pod.
func TestAPodOfAHeadlessServiceHasItsOwnName(t *testing.T) {
	s := ordinary(t)
	s.Services[0].Spec.ClusterIP = corev1.ClusterIPNone
	s.Pod.Spec.Hostname, s.Pod.Spec.Subdomain = "web-0", "web"
	assert.ElementsMatch(t, []string{"web.shop.svc", "web.shop.svc.cluster.local", "web-0.web.shop.svc", "web-0.web.shop.svc.cluster.local"}, Decide(s).Sign.DNSNames)
}

// A signed certificate passes every check, and its status that of the API server.
func TestWhatIsSigned(t *testing.T) {
	for name, c := range map[string]struct {
		algorithm  pki.KeyAlgorithm
		max, most  time.Duration
		signUntil  time.Duration // after now, 0 for the CA's
		want       time.Duration
		firstFresh time.Duration // earliest and latest refresh, from the beginning
		lastFresh  time.Duration
	}{
		"the kubelet's limit": {pki.ECDSAP256, time.Hour, 24 * time.Hour, 0, time.Hour, 42 * time.Minute, 50 * time.Minute},
		"the signer's limit":  {pki.Ed25519, 24 * time.Hour, 2 * time.Hour, 0, 2 * time.Hour, 84 * time.Minute, 108 * time.Minute},
		"the CA's promise":    {pki.RSA3072, 24 * time.Hour, 24 * time.Hour, 3 * time.Hour, 3*time.Hour + pki.PodBackdate, 2 * time.Hour, 165 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := ordinary(t)
			s.Request.CSR, s.Request.MaxLifetime, s.MaxDuration = csrOf(t, c.algorithm), c.max, c.most
			if c.signUntil > 0 {
				ca := *s.Authority
				ca.SignUntil = epoch.Add(c.signUntil)
				s.Authority = &ca
			}
			d := Decide(s)
			require.Equal(t, Sign, d.Verdict, d.Message)
			sign := func(_ context.Context, ca *pki.Authority, r issue.SigningRequest) (*x509.Certificate, error) {
				return signertest.Sign(ca, signertest.Request(r))
			}
			issued, err := issue.Certify(t.Context(), sign, s.Authority, d.Key, d.Sign, s.Now)
			require.NoError(t, err)
			assert.Equal(t, c.algorithm, d.Sign.KeyAlgorithm)
			assert.Equal(t, c.want, pki.Lifetime(issued.Leaf))
			assert.Equal(t, epoch.Add(-pki.PodBackdate).Truncate(time.Second), issued.Leaf.NotBefore)
			assert.ElementsMatch(t, []string{"web.shop.svc", "web.shop.svc.cluster.local"}, issued.Leaf.DNSNames)

			status := Issued(issued, epoch)
			assert.Equal(t, "Issued", status.Conditions[0].Type)
			assert.Equal(t, issued.Leaf.NotAfter, status.NotAfter.Time)
			refresh := status.BeginRefreshAt.Sub(issued.Leaf.NotBefore)
			assert.GreaterOrEqual(t, refresh, c.firstFresh)
			assert.LessOrEqual(t, refresh, c.lastFresh)
			chain, err := pki.ParseCertificates([]byte(status.CertificateChain))
			require.NoError(t, err)
			assert.True(t, chain[0].Equal(issued.Leaf))
		})
	}
}

func TestFactsOf(t *testing.T) {
	spec := certificatesv1beta1.PodCertificateRequestSpec{
		SignerName: api.SignerName, PodName: "web-1", PodUID: "pod", NodeName: "node-1", ServiceAccountName: "default",
		MaxExpirationSeconds: new(int32), StubPKCS10Request: []byte("csr"),
		UnverifiedUserAnnotations: map[string]string{"b/b": "", "a/a": ""},
	}
	request := &certificatesv1beta1.PodCertificateRequest{Spec: spec}
	got := FactsOfBeta(request)
	assert.Equal(t, &Request{
		Pending: true, PodName: "web-1", PodUID: "pod", NodeName: "node-1", ServiceAccountName: "default",
		CSR: []byte("csr"), Options: []string{"a/a", "b/b"},
	}, got)
	assert.Equal(t, got, got.DeepCopyObject())

	request.Spec.StubPKCS10Request = make([]byte, maxCSR+1)
	assert.Empty(t, FactsOfBeta(request).CSR, "it is not kept")
	request.Spec.SignerName = "example.com/other"
	assert.Equal(t, &Request{}, FactsOfBeta(request))
	request.Spec = spec
	request.Status.Conditions = []metav1.Condition{{Type: "Failed"}}
	assert.Equal(t, &Request{}, FactsOfBeta(request))
}

// ofClient is a valid request for an identity.
func ofClient(t *testing.T) Situation {
	t.Helper()
	s := ordinary(t)
	s.Services = nil
	s.Request.Client = true
	s.Authority = signertest.NewCA(t, pki.ForClients("example.com"), epoch.Add(-time.Hour), epoch.Add(1000*24*time.Hour))
	return s
}

func TestDecideClient(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(s *Situation)
		verdict Verdict
		reason  string
	}{
		"ordinary":               {func(*Situation) {}, Sign, ""},
		"the pod is gone":        {func(s *Situation) { s.Pod = nil }, Ignore, ""},
		"another node":           {func(s *Situation) { s.Pod.Spec.NodeName = "node-2" }, Deny, "WrongPod"},
		"another ServiceAccount": {func(s *Situation) { s.Pod.Spec.ServiceAccountName = "admin" }, Deny, "WrongPod"},
		"no label":               {func(s *Situation) { s.OptedIn = false }, Wait, api.ReasonNotOptedIn},
		"no CA":                  {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CALost"} }, Wait, "CALost"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ofClient(t)
			c.change(&s)
			d := Decide(s)
			assert.Equal(t, c.verdict, d.Verdict)
			assert.Equal(t, c.reason, d.Reason)
			if d.Verdict == Sign {
				assert.Equal(t, []string{"spiffe://example.com/ns/shop/sa/default"}, d.Names())
				assert.Empty(t, d.Sign.DNSNames)
				assert.Equal(t, 24*time.Hour, d.Sign.NotAfter.Sub(d.Sign.NotBefore))
				assert.Equal(t, s.Now.Add(-2*time.Minute).UTC().Truncate(time.Second), d.Sign.NotBefore, "how far a server's clock may be behind")
			}
		})
	}
}
