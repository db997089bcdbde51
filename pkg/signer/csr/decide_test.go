package csr

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
	"github.com/servingcert/servingcert/test/signertest"
)

var (
	epoch = signertest.Epoch
	web   = types.NamespacedName{Namespace: "shop", Name: "web"}
)

// webService is a Service that selects the pod of an ordinary request.
func webService() *corev1.Service {
	return signertest.Service("web", api.AnnotationKeySource, "pod", api.AnnotationSecretName, "-")
}

func newKey(t *testing.T, algorithm pki.KeyAlgorithm) crypto.Signer {
	t.Helper()
	return signertest.Key(t, algorithm)
}

// requestOf is a PKCS #10 request for the names, changed.
func requestOf(t *testing.T, key crypto.Signer, names []string, change ...func(*x509.CertificateRequest)) []byte {
	t.Helper()
	named := func(r *x509.CertificateRequest) { r.DNSNames = names }
	return issue.EncodeCSR(signertest.CSR(t, key, append([]func(*x509.CertificateRequest){named}, change...)...))
}

func (s *Situation) ask(data []byte) { s.Request.PEM = data }

// decide decides about the current request, with the holders of its names among the Services, as
// the controller does.
func decide(s Situation) Decision {
	s.Request.parsed = nil
	known := serviceindex.New(s.Limits)
	for _, svc := range s.Services {
		known.Change(nil, svc)
	}
	s.Holders = map[string][]types.NamespacedName{}
	for _, name := range ScopeOf(s.Request, s.Limits).Others {
		s.Holders[name] = known.Holding(name, MaxReviews, func(namespace string, podKeys bool) bool { return s.OptedIn[namespace] || podKeys })
	}
	return Decide(s)
}

// approved is an approved request of a pod that gets signed.
func approved(t *testing.T) Situation {
	t.Helper()
	s := Situation{
		Now: epoch, OptedIn: map[string]bool{"shop": true, "bank": true}, Services: []*corev1.Service{webService()},
		Limits: api.DefaultLimits(), MaxDuration: 24 * time.Hour, Authority: signertest.CA(t),
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{ServiceAccountName: "server"},
		},
		Request: &Request{
			Pending: true, Approved: true, Username: "system:serviceaccount:shop:server",
			Extra:  map[string]certificatesv1.ExtraValue{extraPodName: {"web-1"}, extraPodUID: {"pod"}},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	s.ask(requestOf(t, newKey(t, pki.ECDSAP256), []string{"web.shop.svc"}))
	return s
}

// byHost changes the requester to a host, with the given grants.
func (s *Situation) byHost(grants map[types.NamespacedName]bool) {
	s.Request.Username, s.Request.Extra, s.Pod, s.Grants = "host-1", nil, nil, grants
}

// The content of a request is checked first, and an invalid one is denied.
func TestInvalidRequests(t *testing.T) {
	ec := newKey(t, pki.ECDSAP256)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	own := []string{"web.shop.svc"}
	extension := func(oid asn1.ObjectIdentifier, value any) func(*x509.CertificateRequest) {
		der, err := asn1.Marshal(value)
		require.NoError(t, err)
		return func(r *x509.CertificateRequest) {
			r.ExtraExtensions = append(r.ExtraExtensions, pkix.Extension{Id: oid, Value: der})
		}
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("n%d.web.shop.svc", i)
	}
	for name, c := range map[string]struct {
		data    []byte
		change  func(r *Request)
		reason  string
		message string
	}{
		"1 MB":             {make([]byte, 1<<20), nil, "InvalidRequest", "1048576 bytes: must be at most 65536"},
		"no PEM":           {[]byte("x"), nil, "InvalidRequest", "must be one PEM block"},
		"a certificate":    {pki.EncodeCertificates(signertest.CA(t).Certificate), nil, "InvalidRequest", "must be one PEM block"},
		"two requests":     {append(requestOf(t, ec, own), requestOf(t, ec, own)...), nil, "InvalidRequest", "must be one PEM block"},
		"no PKCS #10":      {issue.EncodeCSR([]byte("x")), nil, "InvalidRequest", "not a PKCS #10 request"},
		"signed by others": {otherSignature(t, own), nil, "InvalidRequest", "not signed with its own key"},
		"a weak key":       {requestOf(t, weak, own), nil, "UnsupportedKeyType", "must be one of [ECDSAP256"},
		"1000 names":       {requestOf(t, ec, many), nil, "InvalidName", "1000 names: must be at most 100"},
		"no names":         {requestOf(t, ec, nil), nil, "InvalidName", "no subjectAltName"},
		"a name twice":     {requestOf(t, ec, []string{own[0], own[0]}), nil, "InvalidName", "duplicate name"},
		"an odd name":      {requestOf(t, ec, []string{"a/b.shop.svc"}), nil, "InvalidName", `"a/b.shop.svc"`},
		"a name with *":    {requestOf(t, ec, []string{"w*.shop.svc"}), nil, "InvalidName", `"w*.shop.svc"`},
		"an e-mail address": {requestOf(t, ec, own, func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@shop.svc"} }),
			nil, "InvalidRequest", "rfc822Name"},
		"a URI": {requestOf(t, ec, own, func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "shop"}} }),
			nil, "InvalidRequest", "uniformResourceIdentifier"},
		"a CN that is no name": {requestOf(t, ec, own, func(r *x509.CertificateRequest) { r.Subject.CommonName = "admin" }),
			nil, "InvalidName", `common name "admin": must be one of the DNS names`},
		"an organization": {requestOf(t, ec, own, func(r *x509.CertificateRequest) {
			r.Subject = pkix.Name{CommonName: own[0], Organization: []string{"system:masters"}}
		}), nil, "InvalidName", "subject: must be empty, or a common name only"},
		"a CN and more": {requestOf(t, ec, own, func(r *x509.CertificateRequest) {
			r.Subject = pkix.Name{CommonName: own[0], SerialNumber: "1"} // is encoded after it
		}), nil, "InvalidName", "subject: must be empty, or a common name only"},
		"a long CN": {requestOf(t, ec, []string{strings.Repeat("a", 60) + ".web.shop.svc"}, func(r *x509.CertificateRequest) { r.Subject.CommonName = r.DNSNames[0] }),
			nil, "InvalidName", "must be at most 64"},
		"CA:TRUE": {requestOf(t, ec, own, extension(asn1.ObjectIdentifier{2, 5, 29, 19}, struct{ CA bool }{true})),
			nil, "InvalidRequest", "extension 2.5.29.19"},
		"a key usage": {requestOf(t, ec, own, extension(asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{0x80}, BitLength: 1})),
			nil, "InvalidRequest", "extension 2.5.29.15"},
		"client auth": {requestOf(t, ec, own), func(r *Request) { r.Usages = append(r.Usages, certificatesv1.UsageClientAuth) },
			"InvalidUsages", `"client auth"`},
		"an unknown usage": {requestOf(t, ec, own), func(r *Request) { r.Usages = append(r.Usages, "fly") },
			"InvalidUsages", `"fly"`},
		"a usage of other keys": {requestOf(t, ec, own), func(r *Request) { r.Usages = append(r.Usages, certificatesv1.UsageKeyEncipherment) },
			"InvalidUsages", `"key encipherment"`},
		"a missing usage": {requestOf(t, ec, own), func(r *Request) { r.Usages = r.Usages[:1] },
			"InvalidUsages", `"server auth" is missing`},
		"a short lifetime": {requestOf(t, ec, own), func(r *Request) { r.Lifetime = 599 * time.Second },
			"InvalidRequest", "spec.expirationSeconds: 599: must be at least 600"},
	} {
		t.Run(name, func(t *testing.T) {
			s := approved(t)
			s.ask(c.data)
			s.Request.Approved = false
			if c.change != nil {
				c.change(s.Request)
			}
			d := decide(s)
			assert.Equal(t, Deny, d.Verdict)
			assert.Equal(t, c.reason, d.Reason)
			assert.Contains(t, d.Message, c.message)
			assert.Equal(t, Scope{}, ScopeOf(s.Request, s.Limits), "nothing is read for it")
			s.Request.Approved = true
			assert.Equal(t, Fail, decide(s).Verdict)
		})
	}
}

// otherSignature is a request that another key has signed.
func otherSignature(t *testing.T, names []string) []byte {
	t.Helper()
	var parts [2]struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	for i := range parts {
		parsed, err := decode(requestOf(t, newKey(t, pki.ECDSAP256), names))
		require.NoError(t, err)
		_, err = asn1.Unmarshal(parsed.Raw, &parts[i])
		require.NoError(t, err)
	}
	parts[0].Signature = parts[1].Signature
	der, err := asn1.Marshal(parts[0])
	require.NoError(t, err)
	return issue.EncodeCSR(der)
}

// settled gives a Service that asks for keys of pods the condition that the signer writes under
// the CA while the namespace is opted in.
func settled(t *testing.T, ca *pki.Authority, limits api.Limits, svc *corev1.Service) {
	t.Helper()
	svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod)
	said := signer.UnnamedStatusUpdate(signer.Situation{Now: epoch, OptedIn: true, Authority: ca, Limits: limits, Requesters: []*corev1.Service{svc}})
	require.Len(t, said.Services, 1)
	svc.Status.Conditions = said.Services[0].Ready.Both()
}

func TestWhoMayHaveWhichNames(t *testing.T) {
	granted := map[types.NamespacedName]bool{web: true}
	nothing := map[types.NamespacedName]bool{web: false}
	headless := func(s *Situation) {
		s.Services[0].Spec.ClusterIP = corev1.ClusterIPNone
		s.Pod.Spec.Hostname, s.Pod.Spec.Subdomain = "web-1", "web"
	}
	other := func(s *Situation) { s.Services = append(s.Services, signertest.Service("other")) }
	// As in the cache: without the selector, so that the pods that it selects are not known.
	tooLarge := func(s *Situation) {
		for i := range 256 {
			s.Services[0].Spec.Ports = append(s.Services[0].Spec.Ports, corev1.ServicePort{Port: int32(i + 1)})
		}
		s.Services[0].Spec.Ports = append(s.Services[0].Spec.Ports, corev1.ServicePort{Port: 443})
		s.Services[0] = api.StripService(s.Services[0], signer.Keep(s.Services[0]))
	}
	hadPodKeys := func(s *Situation) {
		s.OptedIn = map[string]bool{"shop": false}
		settled(t, s.Authority, s.Limits, s.Services[0])
	}
	forgedPodKeys := func(s *Situation) {
		s.OptedIn = map[string]bool{"shop": false}
		settled(t, signertest.CA(t), s.Limits, s.Services[0])
	}
	suffix := func(s *Situation) {
		s.Limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "shop", Suffix: "example.com"}}
		s.Authority = signertest.NewCA(t, s.Limits.Constraints(), epoch.Add(-signertest.Day), epoch.Add(1000*signertest.Day))
		s.Services[0].Annotations[api.AnnotationExtraDNSNames] = "www.example.com"
	}
	for name, c := range map[string]struct {
		names   string // comma-separated
		change  func(s *Situation)
		verdict Verdict
		reason  string
	}{
		"a pod, one name":              {"web.shop.svc", nil, Sign, ""},
		"a pod, all names":             {"web.shop.svc,web.shop.svc.cluster.local", nil, Sign, ""},
		"a pod, two Services":          {"web.shop.svc,other.shop.svc", func(s *Situation) { other(s); s.Services[1].Spec.Selector = s.Services[0].Spec.Selector }, Sign, ""},
		"a pod, a Service of a Secret": {"web.shop.svc", func(s *Situation) { s.Services[0].Annotations = map[string]string{api.AnnotationSecretName: "web-tls"} }, Sign, ""},
		"a pod, its own name":          {"web-1.web.shop.svc", headless, Sign, ""},
		"a pod, another's name":        {"web-2.web.shop.svc", headless, Deny, "InvalidName"},
		"a pod, the wildcard":          {"*.web.shop.svc", headless, Deny, "InvalidName"},
		"a pod, a wildcard of nothing": {"*.shop.svc", nil, Deny, "InvalidName"},
		"a pod, an extra name":         {"www.example.com", suffix, Sign, ""},
		"a pod, another extra name":    {"api.example.com", suffix, Wait, "NoService"},
		"a pod, an address as a name":  {"10.0.0.1", nil, Deny, "InvalidName"},
		"a pod, a name from outside":   {"www.example.org", nil, Deny, "InvalidName"},
		"a pod, another Service":       {"other.shop.svc", other, Deny, "NotPermitted"},
		"a pod, both":                  {"web.shop.svc,other.shop.svc", other, Deny, "NotPermitted"},
		"a pod, another namespace":     {"web.bank.svc", nil, Deny, "NotPermitted"},
		"a pod, the same Service of another namespace": {"web.bank.svc", func(s *Situation) {
			s.Services = append(s.Services, webService())
			s.Services[1].Namespace = "bank"
		}, Deny, "NotPermitted"},
		"a pod, SVC.NS alone":                        {"web.shop", nil, Deny, "InvalidName"},
		"a pod, no Service yet":                      {"web.shop.svc", func(s *Situation) { s.Services = nil }, Wait, "NoService"},
		"a pod, not opted in":                        {"web.shop.svc", func(s *Situation) { s.Services, s.OptedIn = nil, nil }, Wait, "NamespaceNotOptedIn"},
		"a pod, not opted in, the Service asks":      {"web.shop.svc", func(s *Situation) { s.OptedIn = nil }, Wait, "NamespaceNotOptedIn"},
		"a pod, no longer opted in":                  {"web.shop.svc", hadPodKeys, Sign, ""},
		"a pod, no longer opted in, another Service": {"other.shop.svc", func(s *Situation) { other(s); hadPodKeys(s) }, Wait, "NamespaceNotOptedIn"},
		"a pod, the proof is forged":                 {"web.shop.svc", forgedPodKeys, Wait, "NamespaceNotOptedIn"},
		"a host, the proof is forged":                {"web.shop.svc", func(s *Situation) { s.byHost(granted); forgedPodKeys(s) }, Wait, "NamespaceNotOptedIn"},
		"a pod, the condition holds no proof": {"web.shop.svc", func(s *Situation) {
			hadPodKeys(s)
			svc := s.Services[0]
			svc.Status.Conditions = state.Say(svc.Status.Conditions[0], state.Ready{Names: []string{"web.shop.svc"}}).Both()
		}, Wait, "NamespaceNotOptedIn"},
		"an extra name that was added later": {"web.shop.svc", func(s *Situation) {
			hadPodKeys(s)
			s.Services[0].Annotations[api.AnnotationExtraDNSNames] = "more.web.shop.svc"
		}, Wait, "NamespaceNotOptedIn"},
		"the proof of another Service": {"other.shop.svc", func(s *Situation) {
			other(s)
			hadPodKeys(s)
			s.Services[1].Spec, s.Services[1].Status = s.Services[0].Spec, s.Services[0].Status
		}, Wait, "NamespaceNotOptedIn"},
		"a host, no longer opted in":        {"web.shop.svc", func(s *Situation) { s.byHost(granted); hadPodKeys(s) }, Sign, ""},
		"an extra name, no longer opted in": {"www.example.com", func(s *Situation) { suffix(s); hadPodKeys(s) }, Sign, ""},
		"an extra name, never opted in":     {"www.example.com", func(s *Situation) { suffix(s); s.OptedIn = nil }, Wait, "NoService"},
		"a pod, a Service that is refused": {"web.shop.svc", func(s *Situation) { s.Services[0].Annotations[api.AnnotationDuration] = "x" },
			Wait, "InvalidAnnotation"},
		"a pod, a Service that is too large": {"web.shop.svc", tooLarge, Wait, "TooLarge"},
		"a pod, another is too large":        {"other.shop.svc", func(s *Situation) { other(s); tooLarge(s) }, Deny, "NotPermitted"},
		"a pod that is gone":                 {"web.shop.svc", func(s *Situation) { s.Pod = nil }, Deny, "PodGone"},
		"a pod that was made again":          {"web.shop.svc", func(s *Situation) { s.Pod.UID = "again" }, Deny, "PodGone"},
		"a pod that is being deleted":        {"web.shop.svc", func(s *Situation) { s.Pod.DeletionTimestamp = &metav1.Time{Time: epoch} }, Deny, "PodGone"},
		"a pod of another account":           {"web.shop.svc", func(s *Situation) { s.Pod.Spec.ServiceAccountName = "admin" }, Deny, "PodGone"},
		"an unbound token":                   {"web.shop.svc", func(s *Situation) { s.Request.Extra = nil }, Deny, "NotPermitted"},
		"a token without UID":                {"web.shop.svc", func(s *Situation) { delete(s.Request.Extra, extraPodUID) }, Deny, "NotPermitted"},
		"a user with extras of a pod":        {"web.shop.svc", func(s *Situation) { s.Request.Username = "jane" }, Deny, "NotPermitted"},
		"a pod with a grant":                 {"other.shop.svc,web.shop.svc", func(s *Situation) { other(s); s.Grants[types.NamespacedName{Namespace: "shop", Name: "other"}] = true }, Sign, ""},
		"a host":                             {"web.shop.svc", func(s *Situation) { s.byHost(granted) }, Sign, ""},
		"a host without the right":           {"web.shop.svc", func(s *Situation) { s.byHost(nothing) }, Deny, "NotPermitted"},
		"a host, another Service":            {"other.shop.svc", func(s *Situation) { other(s); s.byHost(granted) }, Deny, "NotPermitted"},
		"a host, a name below":               {"a.web.shop.svc", func(s *Situation) { s.byHost(granted) }, Deny, "InvalidName"},
		"a host, the wildcard":               {"*.web.shop.svc", func(s *Situation) { headless(s); s.byHost(granted) }, Sign, ""},
		"a host, an extra name":              {"www.example.com", func(s *Situation) { suffix(s); s.byHost(granted) }, Sign, ""},
		"a host, an extra name of other":     {"www.example.com", func(s *Situation) { suffix(s); s.byHost(nothing) }, Deny, "NotPermitted"},
		"a host, no Service yet":             {"web.shop.svc", func(s *Situation) { s.byHost(granted); s.Services = nil }, Wait, "NoService"},
		"a host, not opted in":               {"web.shop.svc", func(s *Situation) { s.byHost(granted); s.Services, s.OptedIn = nil, nil }, Wait, "NamespaceNotOptedIn"},
		"a host, a Service that is refused": {"web.shop.svc", func(s *Situation) {
			s.byHost(granted)
			s.Services[0].Annotations[api.AnnotationDuration] = "x"
		}, Wait, "InvalidAnnotation"},
		"a host, a Service that is too large":      {"web.shop.svc", func(s *Situation) { s.byHost(granted); tooLarge(s) }, Wait, "TooLarge"},
		"a host, without the right to a large one": {"web.shop.svc", func(s *Situation) { s.byHost(nothing); tooLarge(s) }, Deny, "NotPermitted"},
		"another Service, by a suffix that was the cluster domain": {"web.bank.svc.old.local", func(s *Situation) {
			suffix(s)
			s.Limits.FormerDomains, s.Limits.PermitDNSSuffixes = []string{"old.local"}, []api.SuffixRule{{NamespaceGlob: "shop", Suffix: "old.local"}}
			s.Services[0].Annotations[api.AnnotationExtraDNSNames] = "web.bank.svc.old.local"
			s.Authority = signertest.NewCA(t, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "old.local"}}, epoch.Add(-signertest.Day), epoch.Add(1000*signertest.Day))
		}, Deny, "NotPermitted"},
		"a former cluster domain": {"web.shop.svc.old.local", func(s *Situation) {
			s.Limits.FormerDomains = []string{"old.local"}
			s.Authority = signertest.NewCA(t, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "old.local"}}, epoch.Add(-signertest.Day), epoch.Add(1000*signertest.Day))
		}, Sign, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := approved(t)
			s.Grants = map[types.NamespacedName]bool{}
			s.ask(requestOf(t, newKey(t, pki.ECDSAP256), strings.Split(c.names, ",")))
			if c.change != nil {
				c.change(&s)
			}
			d := decide(s)
			want := c.verdict
			if want == Deny {
				want = Fail
			}
			assert.Equal(t, want, d.Verdict, "%s: %s", d.Reason, d.Message)
			assert.Equal(t, c.reason, d.Reason)
			assert.Equal(t, c.verdict == Sign, d.Message == "")
			if c.verdict == Sign {
				assert.ElementsMatch(t, strings.Split(c.names, ","), d.Sign.DNSNames)
			}
			s.Request.Approved = false
			unapproved := decide(s)
			if c.verdict == Sign {
				assert.Equal(t, Approve, unapproved.Verdict)
			} else {
				assert.Equal(t, c.verdict, unapproved.Verdict)
			}
		})
	}
}

// A Service must request IP addresses, as it does extra names.
func TestIPAddresses(t *testing.T) {
	s := approved(t)
	s.Grants = map[types.NamespacedName]bool{}
	s.ask(requestOf(t, newKey(t, pki.ECDSAP256), []string{"web.shop.svc"}, func(r *x509.CertificateRequest) {
		r.IPAddresses = []net.IP{net.ParseIP("10.0.0.1")}
	}))
	d := decide(s)
	assert.Equal(t, "InvalidName", d.Reason)
	assert.Contains(t, d.Message, "--permit-cluster-ips")

	s.Limits.PermitClusterIPs = true
	s.Authority = signertest.NewCA(t, s.Limits.Constraints(), epoch.Add(-signertest.Day), epoch.Add(1000*signertest.Day))
	assert.Equal(t, "NoService", decide(s).Reason, "no Service asks for it")
	s.Services[0].Annotations[api.AnnotationClusterIPs] = "true"
	d = decide(s)
	require.Equal(t, Sign, d.Verdict, d.Message)
	assert.Equal(t, "10.0.0.1", d.Sign.IPs[0].String())

	s.Limits.ClusterIPDuration = time.Hour
	d = decide(s)
	assert.Equal(t, time.Hour, d.Sign.NotAfter.Sub(d.Sign.NotBefore), "an address may become another Service's")
	s.Services[0].Spec.Selector = map[string]string{"app": "other"}
	assert.Equal(t, "NotPermitted", decide(s).Reason)
}

// SubjectAccessReviews are made only if the pod alone does not decide, and their number is
// bounded.
func TestReviews(t *testing.T) {
	s := approved(t)
	assert.Equal(t, Sign, decide(s).Verdict, "no review for a pod's own names")
	assert.Equal(t, Scope{Services: []types.NamespacedName{web}}, ScopeOf(s.Request, s.Limits))

	s.byHost(nil)
	d := decide(s)
	assert.Equal(t, Review, d.Verdict)
	assert.Equal(t, []types.NamespacedName{web}, d.Reviews)

	s.Services = nil
	assert.Equal(t, []types.NamespacedName{web}, decide(s).Reviews, "the answer does not tell whether there is such a Service")

	many := make([]string, MaxReviews+1)
	for i := range many {
		many[i] = fmt.Sprintf("web.n%d.svc", i)
	}
	s.ask(requestOf(t, newKey(t, pki.ECDSAP256), many))
	d = decide(s)
	assert.Equal(t, Fail, d.Verdict)
	assert.Equal(t, "TooManyServices", d.Reason)
	s.ask(requestOf(t, newKey(t, pki.ECDSAP256), many[1:]))
	assert.Len(t, decide(s).Reviews, MaxReviews)

	s.Limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "shop", Suffix: "example.com"}}
	for i := range MaxReviews + 1 {
		svc := signertest.Service(fmt.Sprintf("s%d", i), api.AnnotationExtraDNSNames, "www.example.com")
		svc.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Duration(i) * time.Hour))
		s.Services = append(s.Services, svc)
	}
	s.ask(requestOf(t, newKey(t, pki.ECDSAP256), []string{"www.example.com"}))
	d = decide(s)
	assert.Len(t, d.Reviews, MaxReviews)
	assert.Equal(t, "s8", d.Reviews[0].Name, "the oldest first")
	assert.Equal(t, Scope{Others: []string{"www.example.com"}}, ScopeOf(s.Request, s.Limits))
}

// What has to wait for the limits is neither approved nor signed, and never denied. What is never
// signed takes nothing of them.
func TestLimits(t *testing.T) {
	s := approved(t)
	// limited decides after so many other requests with the same share.
	limited := func(before int, rates ratelimit.Rates) Decision {
		d, pace := decide(s), ratelimit.New(rates)
		for i := range before {
			another := d.Share
			another.Request.Name = fmt.Sprint("another-", i)
			pace.Waits(another, s.Now)
		}
		if until, why, waits := pace.Waits(d.Share, s.Now); waits {
			return Limited(until, why)
		}
		return d
	}
	ofNamespace := ratelimit.Rates{Secret: limit.Limit{Burst: 20, Interval: time.Minute}, Namespace: limit.Limit{Burst: 1, Interval: 90 * time.Second}}
	for isApproved, verdict := range map[bool]Verdict{true: Sign, false: Approve} {
		s.Request.Approved = isApproved
		assert.Equal(t, verdict, limited(1, ofNamespace).Verdict)
		assert.Equal(t, Decision{
			Verdict: Wait, Reason: "RateLimited", NextAt: epoch.Add(90 * time.Second),
			Message: "too many certificates were issued: the limit for one namespace is reached (1 at once, then one every 1m30s); " +
				"this request is answered at 2026-03-01T12:01:31Z",
		}, limited(2, ofNamespace))
	}
	s.Request.Approved = false // the order of a map is random
	assert.Contains(t, limited(20, ratelimit.DefaultRates()).Message, "the limit for one pod is reached (20 at once, then one every 1m0s)")
	s.Request.Extra, s.Grants = nil, map[types.NamespacedName]bool{web: true}
	assert.Contains(t, limited(20, ratelimit.DefaultRates()).Message, "the limit for one requester with these names is reached")
	assert.Equal(t, Approve, limited(19, ratelimit.DefaultRates()).Verdict)
	s.Pod = nil
	s.Request.PEM = nil
	assert.Equal(t, "InvalidRequest", decide(s).Reason)
	assert.Zero(t, decide(s).Share)
}

// Who asks decides whose limits count, and in whose turn the request is looked at.
func TestWhoseShare(t *testing.T) {
	s := approved(t)
	s.Request.UID = "request"
	assert.Equal(t, ratelimit.ShareOfPod("request", "shop", "pod"), decide(s).Share)
	assert.Equal(t, "shop", s.Request.Tenant())

	of := func(change func(s *Situation)) ratelimit.Share {
		next := s
		request := *s.Request
		next.Request, next.Grants = &request, map[types.NamespacedName]bool{web: true}
		change(&next)
		d := decide(next)
		require.Equal(t, Sign, d.Verdict, d.Message)
		assert.Equal(t, next.Request.Tenant(), d.Share.Subject.Namespace)
		assert.Equal(t, next.Request.Tenant(), d.Sign.Tenant)
		assert.False(t, d.Share.FirstIsFree)
		return d.Share
	}
	unbound := of(func(s *Situation) { s.Request.Extra = nil })
	host := of(func(s *Situation) { s.byHost(s.Grants) })
	again := of(func(s *Situation) {
		s.byHost(s.Grants)
		s.ask(requestOf(t, newKey(t, pki.ECDSAP384), []string{"web.shop.svc"}))
	})
	more := of(func(s *Situation) {
		s.byHost(s.Grants)
		s.ask(requestOf(t, newKey(t, pki.ECDSAP256), []string{"web.shop.svc", "web.shop.svc.cluster.local"}))
	})
	assert.Equal(t, "shop", unbound.Subject.Namespace)
	assert.Equal(t, "user:host-1", host.Subject.Namespace, "is the name of no namespace")
	assert.Equal(t, host, again, "another key is the same certificate")
	assert.NotEqual(t, host.Subject, more.Subject)
	assert.Equal(t, host.Request, more.Request)
}

type reasoned struct {
	error
	reason string
}

func (r reasoned) Reason() string { return r.reason }

// A request that depends on the CA waits, and is decided again without a change.
func TestTheCA(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(s *Situation)
		verdict Verdict
		reason  string
	}{
		"it is being read":       {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CAPending"} }, Ignore, ""},
		"it is lost":             {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CALost"} }, Wait, "CALost"},
		"the clocks differ":      {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "ClockSkew"} }, Wait, "ClockSkew"},
		"it is remote, and away": {func(s *Situation) { s.Authority, s.AuthorityErr = nil, reasoned{errors.New("x"), "CAUnreachable"} }, Wait, "CAUnreachable"},
		"no reason":              {func(s *Situation) { s.Authority, s.AuthorityErr = nil, errors.New("x") }, Wait, "CAUnavailable"},
		"it ends too soon":       {func(s *Situation) { s.Now = s.Authority.Certificate.NotAfter.Add(-599 * time.Second) }, Wait, "CAEndsTooSoon"},
		"names that wait": {func(s *Situation) {
			s.Authority = signertest.NewCA(t, pki.Constraints{PermittedDNS: []string{"example.com"}}, epoch.Add(-time.Hour), epoch.Add(100*signertest.Day))
		}, Wait, "WaitingForTrust"},
		"it ends in 10 min": {func(s *Situation) { s.Now = s.Authority.Certificate.NotAfter.Add(-600 * time.Second) }, Sign, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := approved(t)
			c.change(&s)
			d := decide(s)
			assert.Equal(t, c.verdict, d.Verdict, "%s: %s", d.Reason, d.Message)
			assert.Equal(t, c.reason, d.Reason)
			if c.verdict != Sign {
				assert.Equal(t, s.Now.Add(signer.CARetry), d.NextAt)
			}
		})
	}
}

// A signed certificate passes every check, and has the longest lifetime allowed.
func TestWhatIsSigned(t *testing.T) {
	for name, c := range map[string]struct {
		algorithm   pki.KeyAlgorithm
		asked, most time.Duration
		signUntil   time.Duration // after now, 0 for the CA's
		want        time.Duration // after now
	}{
		"by default":        {pki.ECDSAP256, 0, 48 * time.Hour, 0, 24 * time.Hour},
		"the signer's most": {pki.Ed25519, 24 * time.Hour, 2 * time.Hour, 0, 2*time.Hour - pki.Backdate},
		"as asked":          {pki.RSA2048, time.Hour, 24 * time.Hour, 0, time.Hour},
		"the least":         {pki.RSA4096, 600 * time.Second, 24 * time.Hour, 0, 600 * time.Second},
		"the CA's promise":  {pki.ECDSAP384, 24 * time.Hour, 24 * time.Hour, 3 * time.Hour, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := approved(t)
			s.Request.Lifetime, s.MaxDuration = c.asked, c.most
			if c.algorithm.IsRSA() {
				s.Request.Usages = append(s.Request.Usages, certificatesv1.UsageKeyEncipherment)
			}
			if c.signUntil > 0 {
				ca := *s.Authority
				ca.SignUntil = epoch.Add(c.signUntil)
				s.Authority = &ca
			}
			s.ask(requestOf(t, newKey(t, c.algorithm), []string{"web.shop.svc.cluster.local", "web.shop.svc"}, func(r *x509.CertificateRequest) {
				r.Subject.CommonName = "web.shop.svc"
			}))
			d := decide(s)
			require.Equal(t, Sign, d.Verdict, d.Message)
			issued := certify(t, s, d)
			assert.Equal(t, c.algorithm, d.Sign.KeyAlgorithm)
			assert.Equal(t, epoch.Truncate(time.Second).Add(c.want), issued.Leaf.NotAfter)
			assert.Equal(t, pki.NotBefore(epoch), issued.Leaf.NotBefore)
			assert.Equal(t, []string{"web.shop.svc", "web.shop.svc.cluster.local"}, issued.Leaf.DNSNames)
			chain, err := Certificate(d, issued)
			require.NoError(t, err)
			assert.Equal(t, issued.CertPEM, chain)
		})
	}
}

func certify(t *testing.T, s Situation, d Decision, change ...signertest.Change) issue.Issued {
	t.Helper()
	sign := func(_ context.Context, ca *pki.Authority, r issue.SigningRequest) (*x509.Certificate, error) {
		return signertest.Sign(ca, signertest.Request(r), change...)
	}
	issued, err := issue.Certify(t.Context(), sign, s.Authority, d.Key, d.Sign, s.Now)
	require.NoError(t, err)
	return issued
}

// A certificate with a common name that was not requested is refused: the requester would request
// another at once.
func TestACommonNameThatNobodyAskedFor(t *testing.T) {
	s := approved(t)
	d := decide(s)
	issued := certify(t, s, d, func(template *x509.Certificate, _ *pki.Authority) { template.Subject.CommonName = "web.shop.svc" })
	_, err := Certificate(d, issued)
	var refused *issue.RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Contains(t, err.Error(), `its common name is "web.shop.svc", must be ""`)
}

// RFC 5280 allows 64 characters (ub-common-name).
func TestTheLongestCommonName(t *testing.T) {
	name := strings.Repeat("a", 51) + ".web.shop.svc"
	assert.Len(t, name, 64)
	s := approved(t)
	s.Services[0].Annotations[api.AnnotationExtraDNSNames] = name
	s.ask(requestOf(t, newKey(t, pki.ECDSAP256), []string{name}, func(r *x509.CertificateRequest) { r.Subject.CommonName = name }))
	d := Decide(s)
	assert.Equal(t, Sign, d.Verdict, d.Message)
}

func TestRequestOf(t *testing.T) {
	seconds := int32(600)
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "uid", ResourceVersion: "7", Annotations: map[string]string{"a": "b"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: api.SignerName, Username: "jane", UID: "7", Groups: []string{"g"}, Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}},
			ExpirationSeconds: &seconds, Usages: []certificatesv1.KeyUsage{"server auth"}, Request: []byte("csr"),
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []Condition{{Type: certificatesv1.CertificateApproved}}},
	}
	assert.Equal(t, &Request{
		Name: "csr-1", UID: "uid", ResourceVersion: "7", Pending: true, Approved: true, Username: "jane", UserUID: "7", Groups: []string{"g"},
		Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}}, Lifetime: 10 * time.Minute, Usages: []certificatesv1.KeyUsage{"server auth"},
		PEM: []byte("csr"), Conditions: o.Status.Conditions,
	}, RequestOf(o))
	assert.True(t, FactsOf(o, api.DefaultLimits()).IsPending())

	for _, answer := range []certificatesv1.RequestConditionType{certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		answered := o.DeepCopy()
		answered.Status.Conditions = append(answered.Status.Conditions, Condition{Type: answer})
		assert.False(t, RequestOf(answered).Pending)
	}
	signed, elsewhere := o.DeepCopy(), o.DeepCopy()
	signed.Status.Certificate, elsewhere.Spec.SignerName = []byte("x"), "example.com/other"
	for _, other := range []*certificatesv1.CertificateSigningRequest{signed, elsewhere} {
		assert.Equal(t, Decision{}, Decide(Situation{Request: RequestOf(other)}))
		assert.Equal(t, &Facts{ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "uid", ResourceVersion: "7"}}, FactsOf(other, api.DefaultLimits()), "nothing else is kept")
	}
}

func TestAnswers(t *testing.T) {
	d := Decision{Verdict: Deny, Reason: "R", Message: strings.Repeat("é", 2000)}
	assert.Equal(t, certificatesv1.CertificateDenied, Approval(d).Type)
	assert.Equal(t, strings.Repeat("é", maxMessage)+"…", Approval(d).Message)
	assert.Equal(t, certificatesv1.CertificateApproved, Approval(Decision{Verdict: Approve}).Type)
	before := Condition{Type: certificatesv1.CertificateApproved, Message: "by hand"}
	after := Failed(&Request{Conditions: []Condition{before}}, Decision{Verdict: Fail, Reason: "R"})
	assert.Equal(t, []Condition{before, {Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "R"}}, after)
}
