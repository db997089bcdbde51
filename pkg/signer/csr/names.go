package csr

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
)

// Scope identifies the Services that a decision about a request needs, besides those that select
// the requester's pod.
type Scope struct {
	// Services are those to whose domains the names belong, sorted.
	Services []types.NamespacedName
	// Others are the addresses and the names outside of the domains of Services, as
	// serviceindex.OtherNames returns them.
	Others []string
}

// ScopeOf returns the scope of a request, which is empty if the request is invalid.
func ScopeOf(r *Request, limits api.Limits) (s Scope) {
	a, refused := r.parse()
	if refused != nil {
		return Scope{}
	}
	for _, name := range a.dnsNames {
		if owner, ok := serviceindex.ServiceOf(name, limits); ok {
			s.Services = append(s.Services, owner)
		} else {
			s.Others = append(s.Others, name)
		}
	}
	for _, ip := range a.ips {
		s.Others = append(s.Others, serviceindex.NameOf(ip))
	}
	s.Services = sorted(s.Services, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return s
}

// mayBePermitted reports whether any namespace may have the name, which is outside of the
// domains of Services.
func mayBePermitted(name string, limits api.Limits) bool {
	base := strings.TrimPrefix(name, "*.")
	return slices.ContainsFunc(limits.PermitDNSSuffixes, func(rule api.SuffixRule) bool {
		return base == rule.Suffix || strings.HasSuffix(base, "."+rule.Suffix)
	})
}

// names are DNS names and IP addresses.
type names struct {
	dns []string
	ips []netip.Addr
}

func (n *names) add(dns []string, ips []netip.Addr) {
	n.dns, n.ips = append(n.dns, dns...), append(n.ips, ips...)
}

func (n *names) empty() bool { return len(n.dns)+len(n.ips) == 0 }

// without returns the requested names that are not allowed.
func (a asked) without(allowed names) (missing names) {
	missing.dns = slices.DeleteFunc(slices.Clone(a.dnsNames), func(name string) bool { return slices.Contains(allowed.dns, name) })
	missing.ips = slices.DeleteFunc(slices.Clone(a.ips), func(ip netip.Addr) bool { return slices.Contains(allowed.ips, ip) })
	return missing
}

// service returns the Service with the key if it requests a certificate and may have it
// (signer.MayHavePodKeys), or nil.
func (s Situation) service(key types.NamespacedName) *corev1.Service {
	for _, svc := range s.Services {
		if svc.Namespace == key.Namespace && svc.Name == key.Name {
			return svc
		}
	}
	return nil
}

func keyOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}
