package signer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A name constraint of a CA judges all names of a leaf: one name that it does not
// permit, and a client that holds this CA alone rejects the leaf with all names.
// So a name stays out until every root that a client may hold permits it.

// Acceptable returns what a certificate can hold now of what is asked for, with
// the names of former domains that there is room for, and whether anything that
// is asked for has to wait. With IP addresses it lives no longer than the limits say,
// unless a remote CA gives the lifetime; nor longer than the CA gives at all.
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

// waitingNames returns what each Service has asked for and has to wait for, by
// its UID; nothing of those that have all.
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
