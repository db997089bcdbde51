package csr

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Scope is of which namespaces the Services are needed to decide about a request.
type Scope struct {
	// Namespaces are that of the requester's pod and those in the names, sorted.
	Namespaces []string
	// All: some name does not say which Service it is of, so any may have it.
	All bool
}

// ScopeOf returns the scope of a request: an empty one if the request is invalid.
func ScopeOf(r *Request, limits api.Limits) Scope {
	a, refused := r.parse()
	if refused != nil {
		return Scope{}
	}
	s := Scope{All: len(a.ips) > 0}
	if pod, ok := r.Pod(); ok {
		s.Namespaces = append(s.Namespaces, pod.Namespace)
	}
	for _, name := range a.dnsNames {
		owner, ok := serviceOf(name, limits)
		if ok {
			s.Namespaces = append(s.Namespaces, owner.Namespace)
		}
		s.All = s.All || !ok
	}
	s.Namespaces = sorted(s.Namespaces, strings.Compare)
	return s
}

// serviceOf returns the Service to whose domains the name belongs: SVC.NS.svc,
// SVC.NS.svc.CLUSTERDOMAIN, or a name below. It returns false for a name outside of the
// domains of Services. The Service need not exist.
func serviceOf(name string, limits api.Limits) (types.NamespacedName, bool) {
	for _, domain := range append([]string{limits.ClusterDomain}, limits.FormerDomains...) {
		if short, ok := strings.CutSuffix(name, "."+domain); ok && strings.HasSuffix(short, ".svc") {
			name = short
			break
		}
	}
	labels := strings.Split(name, ".")
	n := len(labels)
	if n < 3 || labels[n-1] != "svc" {
		return types.NamespacedName{}, false
	}
	owner := types.NamespacedName{Namespace: labels[n-2], Name: labels[n-3]}
	if len(validation.IsDNS1123Label(owner.Namespace)) > 0 || len(validation.IsDNS1123Label(owner.Name)) > 0 {
		return types.NamespacedName{}, false // such as *.shop.svc
	}
	return owner, true
}

// mayBePermitted reports whether some namespace may be allowed to have the name, which is
// outside of the domains of Services.
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

// without returns what is asked for and not among the allowed names.
func (a asked) without(allowed names) (missing names) {
	missing.dns = slices.DeleteFunc(slices.Clone(a.dnsNames), func(name string) bool { return slices.Contains(allowed.dns, name) })
	missing.ips = slices.DeleteFunc(slices.Clone(a.ips), func(ip netip.Addr) bool { return slices.Contains(allowed.ips, ip) })
	return missing
}

// service returns the Service of that name if it asks for a certificate and may have it
// (signer.MayHavePodKeys), or nil.
func (s Situation) service(key types.NamespacedName) *corev1.Service {
	for _, svc := range s.Services {
		if svc.Namespace == key.Namespace && svc.Name == key.Name {
			return svc
		}
	}
	return nil
}

// withName returns the Services that ask for a DNS name, the oldest first. Those that ask
// for something that is not allowed are left out.
func (s Situation) withName(name string) []types.NamespacedName {
	return s.with(func(r api.Request) bool { return slices.Contains(r.DNSNames, name) })
}

// withIP is withName for an IP address.
func (s Situation) withIP(ip netip.Addr) []types.NamespacedName {
	return s.with(func(r api.Request) bool { return slices.Contains(r.IPs, ip) })
}

func (s Situation) with(name func(api.Request) bool) (keys []types.NamespacedName) {
	services := slices.Clone(s.Services)
	slices.SortStableFunc(services, api.OlderFirst)
	for _, svc := range services {
		if r, err := api.Parse(svc, s.Limits); err == nil && name(r) {
			keys = append(keys, keyOf(svc))
		}
	}
	return keys
}

func keyOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}
