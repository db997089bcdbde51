package api

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultProxyResources are the resources of a pod's proxy if the pod's containers have any, in the
// form of AnnotationProxyResources. docs/limits.md describes what the memory is used for.
const DefaultProxyResources = "requests.cpu=10m,requests.memory=32Mi,limits.cpu=200m,limits.memory=64Mi"

// proxyAmount is an amount of a resource that AnnotationProxyResources may list.
type proxyAmount struct {
	key         string // named as in a ResourceQuota
	name        corev1.ResourceName
	limit       bool
	least, most resource.Quantity
}

// proxyAmounts lists all. With lower limits the proxy would be throttled or killed when it starts;
// with more memory it would not accept more connections.
var proxyAmounts = []proxyAmount{
	{"requests.cpu", corev1.ResourceCPU, false, resource.MustParse("1m"), resource.MustParse("8")},
	{"requests.memory", corev1.ResourceMemory, false, resource.MustParse("1Mi"), resource.MustParse("4Gi")},
	{"limits.cpu", corev1.ResourceCPU, true, resource.MustParse("50m"), resource.MustParse("8")},
	{"limits.memory", corev1.ResourceMemory, true, resource.MustParse("32Mi"), resource.MustParse("4Gi")},
}

// ParseProxyResources parses AnnotationProxyResources. It returns what is wrong with the value and
// what is allowed, or "".
func ParseProxyResources(value string) (r corev1.ResourceRequirements, detail string) {
	if detail := checkShape(AnnotationProxyResources, value); detail != "" {
		return r, detail
	}
	for _, entry := range splitNames(value) {
		key, amount, _ := strings.Cut(entry, "=")
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			return r, err.Error()
		}
		a := proxyAmounts[slices.IndexFunc(proxyAmounts, func(a proxyAmount) bool { return a.key == key })]
		if q.Cmp(a.least) < 0 || q.Cmp(a.most) > 0 {
			return r, a.key + " must be between " + a.least.String() + " and " + a.most.String()
		}
		list := &r.Requests
		if a.limit {
			list = &r.Limits
		}
		if _, twice := (*list)[a.name]; twice {
			return r, a.key + " must be listed once"
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[a.name] = q
	}
	for _, a := range proxyAmounts {
		request, requested := r.Requests[a.name]
		if limit, limited := r.Limits[a.name]; requested && limited && request.Cmp(limit) > 0 {
			return r, "requests." + string(a.name) + " must not be more than limits." + string(a.name)
		}
	}
	return r, ""
}

// parseProxyResources parses AnnotationProxyResources.
func parseProxyResources(s *Settings, v string) (detail string) {
	s.ProxyResources, detail = ParseProxyResources(v)
	return detail
}
