package signer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A CA's name constraints apply to all names of a leaf: if one is not permitted, a client that
// trusts only this CA rejects the leaf. So a name is not added until every root that a client
// may hold permits it.

// Acceptable returns the part of a request that a certificate can contain now, with as many names
// of former domains as fit, and whether any requested name has to wait. The lifetime is at most
// that of the CA's leaves and, with IP addresses and a local CA, the limit for them.
func Acceptable(asked api.Wanted, limits api.Limits, ca *pki.Authority) (now api.Wanted, waits bool) {
	now = asked
	now.DNSNames = slices.DeleteFunc(slices.Clone(asked.DNSNames), func(name string) bool { return !ca.Permits(name) })
	now.IPs = slices.DeleteFunc(slices.Clone(asked.IPs), func(ip netip.Addr) bool { return !ca.PermitsAddr(ip) })
	waits = len(now.DNSNames) < len(asked.DNSNames) || len(now.IPs) < len(asked.IPs)
	for _, name := range asked.FormerNames {
		if len(now.DNSNames) < api.MaxNames && !slices.Contains(now.DNSNames, name) && ca.Permits(name) {
			now.DNSNames = append(now.DNSNames, name)
		}
	}
	slices.Sort(now.DNSNames)
	now.FormerNames = nil
	if len(now.IPs) > 0 && ca.Key != nil {
		now.Params.Duration = min(now.Params.Duration, limits.ClusterIPDuration)
	}
	if ca.MaxLeaf > 0 {
		now.Params.Duration = min(now.Params.Duration, ca.MaxLeaf)
	}
	return now, waits
}

// waitingNames returns the requested names that have to wait, by the UID of the Service.
func waitingNames(services []*corev1.Service, limits api.Limits, ca *pki.Authority) map[types.UID][]string {
	waiting := map[types.UID][]string{}
	for _, svc := range services {
		asked := api.Retained([]*corev1.Service{svc}, limits)
		for _, name := range asked.DNSNames {
			if !ca.Permits(name) {
				waiting[svc.UID] = append(waiting[svc.UID], name)
			}
		}
		for _, ip := range asked.IPs {
			if !ca.PermitsAddr(ip) {
				waiting[svc.UID] = append(waiting[svc.UID], ip.String())
			}
		}
	}
	return waiting
}

// hasNoNames reports whether a certificate would contain no names.
func hasNoNames(w api.Wanted) bool { return len(w.DNSNames) == 0 && len(w.IPs) == 0 }

func describeNames(dns []string, ips []netip.Addr) string {
	return api.Listed(allNames(dns, ips), maxNamesShown)
}

func allNames(dns []string, ips []netip.Addr) []string {
	names := slices.Clone(dns)
	for _, ip := range ips {
		names = append(names, ip.String())
	}
	return names
}
