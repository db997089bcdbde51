package csr

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/signertest"
)

// waiting is a pending request of a user.
func waiting(username string, data []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "uid", ResourceVersion: "7"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: api.SignerName, Username: username, Request: data},
	}
}

// A request is decided again only when something changes that it depends on.
func TestWhatARequestWaitsFor(t *testing.T) {
	limits := api.DefaultLimits()
	limits.PermitClusterIPs = true
	limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "*", Suffix: "example.com"}}
	extra := signertest.Service("extra", api.AnnotationExtraDNSNames, "www.example.com")
	address := signertest.Service("address", api.AnnotationClusterIPs, "true")
	address.Spec.ClusterIPs = []string{"10.0.0.1"}
	elsewhere := webService()
	elsewhere.Namespace = "bank"
	services := map[string]*corev1.Service{"web": webService(), "extra": extra, "address": address, "elsewhere": elsewhere}
	for name, c := range map[string]struct {
		names string // comma-separated
		ip    string
		want  string // the Services
		label bool   // of namespace shop
	}{
		"a name of a Service":     {"web.shop.svc", "", "web", true},
		"a name below it":         {"a.web.shop.svc.cluster.local", "", "web", true},
		"a wildcard":              {"*.web.shop.svc", "", "web", true},
		"of a former domain":      {"web.shop.svc.old.local", "", "web", true},
		"of another Service":      {"api.shop.svc", "", "", true},
		"of another namespace":    {"web.bank.svc", "", "elsewhere", false},
		"an extra name":           {"www.example.com", "", "extra", false},
		"an extra name of nobody": {"api.example.com", "", "", false},
		"an address":              {"api.shop.svc", "10.0.0.1", "address", true},
		"two":                     {"web.shop.svc,www.example.com", "", "extra web", true},
	} {
		t.Run(name, func(t *testing.T) {
			data := requestOf(t, newKey(t, pki.ECDSAP256), strings.Split(c.names, ","), func(r *x509.CertificateRequest) {
				if c.ip != "" {
					r.IPAddresses = []net.IP{net.ParseIP(c.ip)}
				}
			})
			f := FactsOf(waiting("jane", data), limits)
			concerned := func(concerns ...Concern) bool {
				for _, concern := range concerns {
					for _, its := range f.Concerns() {
						if its == string(concern) {
							return true
						}
					}
				}
				return false
			}
			for service, svc := range services {
				assert.Equal(t, strings.Contains(c.want, service), concerned(ConcernsOf(svc, limits)...), service)
			}
			assert.Equal(t, c.label, concerned(OfNamespace("shop")))
			assert.NotContains(t, f.Concerns(), string(Anything))
		})
	}
	many := make([]string, maxConcerns+1)
	for i := range many {
		many[i] = fmt.Sprintf("n%d.example.com", i)
	}
	f := FactsOf(waiting("jane", requestOf(t, newKey(t, pki.ECDSAP256), many)), limits)
	assert.Equal(t, []string{string(Anything)}, f.Concerns(), "it waits for too much to remember all of it")
	assert.Len(t, string(Anything), sizeOfConcern)
}

// Tenants differ between users, also if a name is too long to be kept.
func TestTenants(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	seen := map[string]bool{}
	for _, user := range []string{"jane", "shop", "system:serviceaccount:shop:server", long, long + "b"} {
		tenant := FactsOf(waiting(user, nil), api.DefaultLimits()).Tenant()
		assert.Equal(t, RequestOf(waiting(user, nil)).Tenant(), tenant)
		assert.LessOrEqual(t, len(tenant), maxTenant)
		assert.False(t, seen[tenant], tenant)
		seen[tenant] = true
	}
	assert.True(t, seen["shop"])
	assert.True(t, seen["user:shop"])
}

// Little is kept of pending requests, whatever their content.
func TestWaitingRequestsKeepLittle(t *testing.T) {
	const n = 500
	names := make([]string, api.MaxNames)
	for i := range names {
		names[i] = fmt.Sprintf("%s.n%d.example.com", strings.Repeat("a.", 100), i)
	}
	large := requestOf(t, newKey(t, pki.ECDSAP256), names)
	some := requestOf(t, newKey(t, pki.ECDSAP256), names[:maxConcerns])
	for name, data := range map[string][]byte{"100 names": large, "as many names as are remembered": some} {
		kept := make([]*Facts, 0, n)
		before := live()
		for i := range n {
			o := waiting(fmt.Sprint("user-", i), append([]byte(nil), data...))
			o.Spec.Extra = map[string]certificatesv1.ExtraValue{"k": {strings.Repeat("x", 10<<10)}}
			o.Spec.Groups = []string{strings.Repeat("g", 10<<10)}
			kept = append(kept, FactsOf(o, api.DefaultLimits()))
		}
		each := (live() - before) / n
		runtime.KeepAlive(kept)
		t.Logf("%s: %d bytes of a request of %d", name, each, len(data))
		assert.Less(t, each, int64(2<<10), name)
	}
}

func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second frees the values that package unique has interned
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is not that large
}

// A decision about a request with 100 names costs little, for any number and requests of Services.
func TestADecisionOfManyNamesCostsLittle(t *testing.T) {
	const n = 10_000
	limits := api.DefaultLimits()
	limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "shop", Suffix: "example.com"}}
	known := serviceindex.New(limits)
	names := make([]string, api.MaxNames)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example.com", i)
	}
	for i := range n {
		known.Change(nil, signertest.Service(fmt.Sprint("s", i), api.AnnotationExtraDNSNames, names[i%len(names)]+",all.example.com"))
	}
	for name, suffixes := range map[string][]api.SuffixRule{"not permitted": nil, "permitted": limits.PermitDNSSuffixes} {
		t.Run(name, func(t *testing.T) {
			s := approved(t)
			s.byHost(map[types.NamespacedName]bool{})
			s.Services, s.Limits.PermitDNSSuffixes = nil, suffixes
			s.ask(requestOf(t, newKey(t, pki.ECDSAP256), names))
			var d Decision
			allocated := bounded.Allocated(func() {
				s.Request.parsed = nil
				s.Holders = map[string][]types.NamespacedName{}
				for _, other := range ScopeOf(s.Request, s.Limits).Others {
					s.Holders[other] = known.Holding(other, MaxReviews, func(string, bool) bool { return true })
				}
				d = Decide(s)
			})
			assert.Equal(t, Fail, d.Verdict, d.Message)
			t.Logf("%d bytes were allocated", allocated)
			assert.Less(t, allocated, uint64(1<<20)*bounded.RaceFactor)
		})
	}
}

// FuzzRequest: the Facts of any request are bounded, and the cost of a decision is a multiple of
// the request's size.
func FuzzRequest(f *testing.F) {
	limits := api.DefaultLimits()
	limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "*", Suffix: "example.com"}}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(f, err)
	for _, names := range [][]string{{"web.shop.svc"}, {"*.web.shop.svc.old.local", "www.example.com"}, {"svc.svc.svc.svc", ".", "..svc"}} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
		require.NoError(f, err)
		f.Add("system:serviceaccount:shop:server", issue.EncodeCSR(der))
	}
	f.Add("jane", []byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, username string, data []byte) {
		if len(data) > 1<<20 {
			return
		}
		// Most changes would only break the PEM block.
		for _, request := range [][]byte{data, issue.EncodeCSR(data)} {
			o := waiting(username, request)
			var facts *Facts
			var scope Scope
			var d Decision
			allocated := bounded.Allocated(func() {
				facts = FactsOf(o, limits)
				r := RequestOf(o)
				scope = ScopeOf(r, limits)
				d = Decide(Situation{Request: r, Limits: limits, Now: epoch})
			})
			if most := uint64(1<<20+64*(len(request)+len(username))) * bounded.RaceFactor; allocated > most {
				t.Fatalf("%d and %d bytes became %d", len(username), len(request), allocated)
			}
			if n := len(facts.Concerns()); n > maxConcerns || len(facts.Tenant()) > maxTenant {
				t.Fatalf("%d concerns, a tenant of %d bytes", n, len(facts.Tenant()))
			}
			if len(scope.Services)+len(scope.Others) > api.MaxNames || len(d.Message) > 4000 {
				t.Fatalf("%d Services, %d others; %.300s", len(scope.Services), len(scope.Others), d.Message)
			}
		}
	})
}

// FuzzName: a name contains the names of all Services to which it may belong.
func FuzzName(f *testing.F) {
	for _, name := range []string{"web.shop.svc", "a.web.shop.svc.cluster.local", "svc.svc.svc", strings.Repeat("svc.", 60) + "svc", ".svc", "", strings.Repeat(".", 253)} {
		f.Add(name)
	}
	limits := api.DefaultLimits()
	limits.FormerDomains = []string{"old.local", "svc.local"}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 1<<16 {
			return
		}
		var may []types.NamespacedName
		allocated := bounded.Allocated(func() { may = servicesIn(name, limits) })
		if most := uint64(64<<10+512*len(name)) * bounded.RaceFactor; allocated > most {
			t.Fatalf("a name of %d bytes became %d", len(name), allocated)
		}
		for _, svc := range may {
			if !strings.Contains(name, svc.Name+"."+svc.Namespace+".svc") {
				t.Fatalf("%q is not of Service %s", name, svc)
			}
		}
	})
}
