package serviceindex

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// ServiceOf returns the Service to whose domains the name belongs: SVC.NS.svc,
// SVC.NS.svc.CLUSTERDOMAIN, or a name below. It returns false for a name outside of the
// domains of Services. The Service need not exist.
func ServiceOf(name string, limits api.Limits) (types.NamespacedName, bool) {
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

// OtherNames returns the names that a Service requests outside of the domains of Services, and its
// addresses in the form of NameOf. It returns none if the request is not valid.
func OtherNames(svc *corev1.Service, limits api.Limits) (names []string) {
	if svc.Annotations[api.AnnotationExtraDNSNames] == "" && svc.Annotations[api.AnnotationClusterIPs] == "" {
		return nil
	}
	r, err := api.Parse(svc, limits)
	if err != nil {
		return nil
	}
	for _, name := range r.DNSNames {
		if _, own := ServiceOf(name, limits); !own {
			names = append(names, name)
		}
	}
	for _, ip := range r.IPs {
		names = append(names, NameOf(ip))
	}
	return names
}

// NameOf returns an address in a form that is not a valid DNS name.
func NameOf(ip netip.Addr) string { return "ip/" + ip.String() }
