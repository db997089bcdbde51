package sidecar

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/servingcert/servingcert/pkg/api"
)

// defaults are [api.DefaultProxyResources].
var defaults, _ = api.ParseProxyResources(api.DefaultProxyResources)

// shared are the resources that determine a pod's quality of service class.
var shared = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// resources returns the resources of the proxy: the configured ones, and otherwise those that keep
// the pod's quality of service class and that a ResourceQuota or a HorizontalPodAutoscaler requires
// of each container, if the pod's own containers have them. Pod-level resources are for all
// containers, and may leave no room for more.
func (w Wanted) resources() corev1.ResourceRequirements {
	var out corev1.ResourceRequirements
	if w.Bare.Spec.Resources != nil {
		return out
	}
	var all []corev1.ResourceRequirements
	for _, list := range [][]corev1.Container{w.Bare.Spec.InitContainers, w.Bare.Spec.Containers} {
		for i := range list {
			all = append(all, list[i].Resources)
		}
	}
	guaranteed := !slices.ContainsFunc(all, func(r corev1.ResourceRequirements) bool { return !isGuaranteed(r) })
	for _, name := range shared {
		has := func(l corev1.ResourceList) bool { _, ok := l[name]; return ok }
		anyHas := slices.ContainsFunc(all, func(r corev1.ResourceRequirements) bool { return has(r.Requests) || has(r.Limits) })
		allLimit := !slices.ContainsFunc(all, func(r corev1.ResourceRequirements) bool { return !has(r.Limits) })
		request, requested := w.Resources.Requests[name]
		limit, limited := w.Resources.Limits[name]
		if !requested {
			request = amount(name, w.Amounts.Requests, defaults.Requests)
		}
		if !limited {
			limit = amount(name, w.Amounts.Limits, defaults.Limits)
		}
		switch over := request.Cmp(limit) > 0; {
		case over && !limited:
			limit = request
		case over, guaranteed:
			request = limit
		}
		if requested || limited || anyHas {
			set(&out.Requests, name, request)
		}
		if limited || allLimit {
			set(&out.Limits, name, limit)
		}
	}
	return out
}

// amount returns the amount in the first of the lists that has one.
func amount(name corev1.ResourceName, lists ...corev1.ResourceList) resource.Quantity {
	for _, l := range lists {
		if q, ok := l[name]; ok {
			return q
		}
	}
	return resource.Quantity{}
}

func set(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = q
}

// isGuaranteed reports whether a container has limits on both, and requests no less. A limit
// without a request is the request too.
func isGuaranteed(r corev1.ResourceRequirements) bool {
	return !slices.ContainsFunc(shared, func(name corev1.ResourceName) bool {
		limit, limited := r.Limits[name]
		request, requested := r.Requests[name]
		return !limited || requested && !request.Equal(limit)
	})
}
