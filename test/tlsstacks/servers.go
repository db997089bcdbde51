package main

import (
	"crypto/x509"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// verdict is the required outcome of a connection.
type verdict int

const (
	mustVerify verdict = iota
	mustRefuse
	noPromise // any outcome is allowed, and is shown in the table
	mayFail   // so is a handshake that fails before the certificate is judged
)

// server is a server with a certificate, and the required outcomes.
type server struct {
	ca      *succession
	signing int // the generation of ca that signed
	service *corev1.Service
	host    string // the name that clients verify
	note    string
	// few: it is tested with few bundles, as its difference from another server does not depend on them.
	few bool

	// badNames and badIPs are names in the leaf that the signer would reject.
	badNames []string
	badIPs   []netip.Addr
	// bad changes the leaf in ways that cannot be requested from a signer.
	bad func(template *x509.Certificate)
	// tail is served after the leaf and the authority's chain.
	tail func(*pki.Authority) []*x509.Certificate
	// unordered omits the authority's chain: only tail is served.
	unordered bool
	// held is the CA of the clients' bundles; nil: ca.
	held *succession
	// judge returns the required outcome; nil: that of the succession.
	judge func(promised verdict, b bundle, s stack) verdict
}

// bundlesOf returns the CA of the bundles of the server's clients.
func (s *server) bundlesOf() *succession {
	if s.held != nil {
		return s.held
	}
	return s.ca
}

// scene contains our CAs, an unknown CA, and the servers.
type scene struct {
	ca       *succession // no root of it has expired
	expired  *succession // its first root has
	expired2 *succession // its first two roots have
	unknown  *succession // its only root has the subject of generation 3 of ca
	servers  []*server
}

func newScene(now time.Time) (*scene, error) {
	const year = 365 * 24 * time.Hour
	var (
		s   scene
		err error
	)
	if s.ca, err = newSuccession("", now, year, year+time.Hour, year+2*time.Hour, year+3*time.Hour, year+4*time.Hour); err != nil {
		return nil, err
	}
	if s.expired, err = newSuccession("-expired", now, -time.Hour, year, year+time.Hour); err != nil {
		return nil, err
	}
	if s.expired2, err = newSuccession("-expired2", now, -2*time.Hour, -time.Hour, year); err != nil {
		return nil, err
	}
	if s.unknown, err = newUnknownCA(s.ca.of(3).root); err != nil {
		return nil, err
	}
	s.servers = append(s.meeting(), s.refused()...)
	return &s, nil
}

// meeting returns the servers of successions, up to the limit of cross-certificates.
func (s *scene) meeting() []*server {
	web := service("web")
	db := service("db")
	db.Spec.ClusterIP = corev1.ClusterIPNone
	key := func(a pki.KeyAlgorithm) *corev1.Service { return service("web", api.AnnotationKeyAlgorithm, string(a)) }
	expired := func(a *pki.Authority) []*x509.Certificate { return a.Ending }
	// Most stacks have no post-quantum signatures yet. They refuse the connection.
	ifPostQuantum := func(promised verdict, _ bundle, st stack) verdict {
		if st.mldsa {
			return promised
		}
		return mayFail
	}
	short, long, pod := "web.shop.svc", "web.shop.svc.cluster.local", "db-0.db.shop.svc"
	return []*server{
		{ca: s.ca, signing: 1, service: web, host: short},
		{ca: s.ca, signing: 2, service: web, host: short},
		{ca: s.ca, signing: 3, service: web, host: short},
		{ca: s.ca, signing: 4, service: web, host: short, note: "the ladder's limit"},
		{ca: s.ca, signing: 5, service: web, host: short, note: "forced: root 1 is out of reach"},
		{ca: s.ca, signing: 3, service: key(pki.RSA2048), host: short, note: "RSA 2048", few: true},
		{ca: s.ca, signing: 3, service: key(pki.Ed25519), host: short, note: "Ed25519", few: true},
		{ca: s.ca, signing: 3, service: key(pki.MLDSA65), host: short, note: "ML-DSA-65", few: true, judge: ifPostQuantum},
		{ca: s.ca, signing: 3, service: web, host: long, few: true},
		{ca: s.ca, signing: 3, service: db, host: pod, note: "a headless Service's wildcard", few: true},
		{ca: s.expired, signing: 3, service: web, host: short, note: "root 1 has expired, issued since"},
		{ca: s.expired, signing: 3, service: web, host: short, note: "root 1 has expired, issued before", tail: expired},
		{ca: s.expired2, signing: 3, service: web, host: short, note: "roots 1 and 2 have expired, issued before", tail: expired},
	}
}

// refused returns the servers that no client may accept, and one like service-ca's.
func (s *scene) refused() []*server {
	web, short := service("web"), "web.shop.svc"
	never := func(verdict, bundle, stack) verdict { return mustRefuse }
	// Names outside of the CA's constraints. Clients that only use name and key of a root (RFC 5280,
	// 6.1.1 d) find the constraints in cross-certificates only.
	unless := func(root int) func(verdict, bundle, stack) verdict {
		return func(_ verdict, b bundle, st stack) verdict {
			if st.unconstrainedRoots && b.holds(root) {
				return noPromise
			}
			return mustRefuse
		}
	}
	uris := func(promised verdict, b bundle, st stack) verdict {
		if st.unconstrainedURIs {
			return noPromise
		}
		return unless(3)(promised, b, st)
	}
	return []*server{
		{ca: s.ca, signing: 3, service: web, host: "api.shop.svc", note: "another Service was asked for", judge: never, few: true},
		{ca: s.ca, signing: 3, service: web, host: short, note: "www.example.com is one of its names",
			badNames: []string{"www.example.com"}, judge: unless(3), few: true},
		{ca: s.ca, signing: 1, service: web, host: "www.example.com", badNames: []string{"www.example.com"}, judge: unless(1), few: true},
		{ca: s.ca, signing: 3, service: web, host: short, note: "10.96.0.1 is one of its names",
			badIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, judge: unless(3), few: true},
		{ca: s.ca, signing: 3, service: web, host: short, note: "fd00::1 is one of its names",
			badIPs: []netip.Addr{netip.MustParseAddr("fd00::1")}, judge: unless(3), few: true},
		{ca: s.ca, signing: 3, service: web, host: short, note: "a@example.com is one of its names",
			bad: func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} }, judge: unless(3), few: true},
		{ca: s.ca, signing: 3, service: web, host: short, note: "spiffe://example.com/a is one of its names",
			bad:   func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/a"}} },
			judge: uris, few: true},
		{ca: s.unknown, signing: 1, service: web, host: short, held: s.ca, note: "an unknown CA with the subject of 3",
			judge: func(promised verdict, b bundle, _ stack) verdict {
				if b.isStrangers() {
					return mustVerify
				}
				return promised
			}},
		// servingcert does not serve this: it shows that the harness detects it.
		{ca: s.ca, signing: 2, service: web, host: short, note: "in service-ca's order", unordered: true,
			tail: func(a *pki.Authority) []*x509.Certificate {
				return append([]*x509.Certificate{a.Certificate}, a.Chain...)
			},
			judge: func(promised verdict, b bundle, st stack) verdict {
				switch {
				case promised != mustVerify || b.holds(2):
					return promised
				case st.openSSL:
					return mustRefuse
				}
				return noPromise
			}},
	}
}

// service returns a Service of namespace shop that asks for a certificate, with the annotations (key,
// value, …).
func service(name string, annotations ...string) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name,
			Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"},
		},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Selector: map[string]string{"app": name}},
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		svc.Annotations[annotations[i]] = annotations[i+1]
	}
	return svc
}
