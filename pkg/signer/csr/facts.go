package csr

import (
	"hash/maphash"
	"slices"
	"strings"
	"unique"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
)

// Facts is the part of a CertificateSigningRequest that is cached: the tenant and concerns of
// a pending one, and the identity of any.
type Facts struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, UID and resource version only

	pending bool
	tenant  unique.Handle[string]
	// concerns are the request's concerns, concatenated. Nothing else is kept of its names.
	concerns string
}

// A Concern is a hash of something that a request depends on: if that changes, the request
// is decided again.
type Concern string

const (
	// sizeOfConcern is the number of bytes of a Concern. Its seed is random, so that no one can
	// provoke collisions.
	sizeOfConcern = 8
	// maxConcerns is the most concerns that are kept of a request. A request with more is
	// decided again after any change, as often as ratelimit.Looks allows.
	maxConcerns = 32
)

// Anything is the concern of a request that has too many.
var Anything = Concern("anything") // sizeOfConcern bytes

// seed is the seed of all concerns of this process.
var seed = maphash.MakeSeed()

func concern(kind byte, texts ...string) Concern {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = h.WriteByte(kind)
	for _, text := range texts { // none has a zero byte
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	return Concern(h.Sum(nil))
}

// OfService returns the concern about a Service.
func OfService(key types.NamespacedName) Concern { return concern('s', key.Namespace, key.Name) }

// OfName returns the concern about an address or a name outside of the domains of Services, as
// serviceindex.OtherNames returns them.
func OfName(name string) Concern { return concern('n', name) }

// OfNamespace returns the concern about the label of a namespace.
func OfNamespace(name string) Concern { return concern('l', name) }

// ConcernsOf returns the concerns of the requests that a change of the Service may affect.
func ConcernsOf(svc *corev1.Service, limits api.Limits) []Concern {
	concerns := []Concern{OfService(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})}
	for _, name := range serviceindex.OtherNames(svc, limits) {
		concerns = append(concerns, OfName(name))
	}
	return concerns
}

// FactsOf returns the Facts of a request. The limits are those that the signer was started
// with, without the former cluster domains, which only the CA has.
func FactsOf(o *certificatesv1.CertificateSigningRequest, limits api.Limits) *Facts {
	f := &Facts{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
	if !isPending(o) {
		return f
	}
	f.pending, f.tenant = true, unique.Make(TenantOf(o.Spec.Username))
	f.concerns = concernsOf(o.Spec.Request, limits)
	return f
}

// concernsOf returns the concerns of a PKCS #10 request, none if it is invalid.
func concernsOf(request []byte, limits api.Limits) string {
	csr, err := decode(request)
	if err != nil || len(csr.DNSNames)+len(csr.IPAddresses) > api.MaxNames {
		return ""
	}
	var concerns []Concern
	for _, name := range csr.DNSNames {
		if len(name) > validation.DNS1123SubdomainMaxLength+len("*.") {
			return "" // the request is refused
		}
		services := servicesIn(name, limits)
		for _, svc := range services {
			concerns = append(concerns, OfService(svc), OfNamespace(svc.Namespace))
		}
		if _, ok := serviceindex.ServiceOf(name, limits); !ok {
			concerns = append(concerns, OfName(name))
		}
	}
	for _, ip := range Addresses(csr) {
		concerns = append(concerns, OfName(serviceindex.NameOf(ip)))
	}
	concerns = sorted(concerns, func(a, b Concern) int { return strings.Compare(string(a), string(b)) })
	if len(concerns) > maxConcerns {
		return string(Anything)
	}
	var all strings.Builder
	for _, c := range concerns {
		all.WriteString(string(c))
	}
	return all.String()
}

// servicesIn returns the Services to which the name may belong, in any cluster domain.
func servicesIn(name string, limits api.Limits) (services []types.NamespacedName) {
	if svc, ok := serviceindex.ServiceOf(name, limits); ok {
		return []types.NamespacedName{svc}
	}
	labels := strings.Split(name, ".")
	for i, label := range labels {
		if svc, ok := serviceindex.ServiceOf(strings.Join(labels[max(0, i-2):i+1], "."), limits); label == "svc" && ok {
			services = append(services, svc)
		}
	}
	return services
}

// Concerns returns the keys under which the request is indexed.
func (f *Facts) Concerns() []string {
	return slices.Collect(func(yield func(string) bool) {
		for i := 0; i < len(f.concerns) && yield(f.concerns[i:i+sizeOfConcern]); i += sizeOfConcern {
		}
	})
}

// IsPending reports whether the request is for this signer, and was not denied, signed or failed.
func (f *Facts) IsPending() bool { return f.pending }

// Tenant returns the TenantOf the requester of a pending request, "" for any other.
func (f *Facts) Tenant() string {
	if !f.pending {
		return ""
	}
	return f.tenant.Value()
}

// DeepCopyObject implements runtime.Object.
func (f *Facts) DeepCopyObject() runtime.Object {
	out := *f
	return &out
}
