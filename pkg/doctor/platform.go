package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The oldest minor versions of Kubernetes 1 that servingcert supports, and that serve the
// optional APIs.
const (
	oldestMinor              = 30
	clusterTrustBundlesMinor = 33
	podCertificatesMinor     = 36
)

// Platform is the state of a cluster that an installation depends on.
type Platform struct {
	// Version is the API server's, such as v1.36.0; Major and Minor are its numbers.
	Version      string
	Major, Minor int
	// Denied are the rights that an installation needs and the user lacks, as VERB RESOURCE.
	Denied []string
	// Escalates is true if the user may create roles with rights that the user lacks.
	Escalates bool
	// The APIs that are served: ValidatingAdmissionPolicy v1, PodCertificateRequests,
	// ClusterTrustBundles.
	Policies, PodCertificates, ClusterTrustBundles bool
	// ServiceCA is the workload of OpenShift's service-ca, as KIND NAMESPACE/NAME; "" if it
	// does not run.
	ServiceCA string
	// Namespace is where servingcert will run, with its Quotas and LimitRanges, and Pods are
	// the pods that will run in it.
	Namespace   string
	Quotas      []corev1.ResourceQuota
	LimitRanges []corev1.LimitRange
	Pods        []corev1.PodSpec
}

func (p *Platform) evaluate() []Finding {
	var out []Finding
	if p.Major < 1 || p.Major == 1 && p.Minor < oldestMinor {
		out = append(out, found(ServerVersion, "", "the API server is %s", p.Version))
	}
	for _, right := range p.Denied {
		out = append(out, found(InstallRights, "", "you may not %s", right))
	}
	if !p.Escalates {
		out = append(out, found(InstallRights, "", "you may not escalate or bind roles: those of servingcert can be created only if you have every right that they grant").as(Warning))
	}
	if !p.Policies {
		out = append(out, found(PoliciesServed, "", "the API server does not serve validatingadmissionpolicies of admissionregistration.k8s.io/v1"))
	}
	if p.ServiceCA != "" {
		out = append(out, found(ServiceCARuns, p.ServiceCA, "it is running"))
	}
	if !p.PodCertificates {
		out = append(out, p.notServed(PodCertificates, "podcertificaterequests", podCertificatesMinor))
	}
	if !p.ClusterTrustBundles {
		out = append(out, p.notServed(ClusterTrustBundles, "clustertrustbundles", clusterTrustBundlesMinor))
	}
	for i := range p.Quotas {
		out = append(out, p.quota(&p.Quotas[i])...)
	}
	for i := range p.LimitRanges {
		out = append(out, p.limitRange(&p.LimitRanges[i])...)
	}
	return out
}

// notServed returns a finding about an API that is not served; the message says whether the server is too old.
func (p *Platform) notServed(id ID, resource string, since int) Finding {
	if p.Major == 1 && p.Minor < since {
		return found(id, "", "the API server is %s, but %s of certificates.k8s.io need Kubernetes 1.%d or later", p.Version, resource, since)
	}
	return found(id, "", "the API server does not serve %s of certificates.k8s.io", resource)
}

// quota returns the findings about a quota that the pods exceed.
func (p *Platform) quota(q *corev1.ResourceQuota) []Finding {
	var out []Finding
	object := "ResourceQuota " + q.Namespace + "/" + q.Name
	pods := slices.DeleteFunc(slices.Clone(p.Pods), func(pod corev1.PodSpec) bool { return !counts(q, pod) })
	if len(pods) == 0 {
		return nil
	}
	for _, name := range sortedNames(q.Spec.Hard) {
		kind, of := quotaOf(name)
		if kind == "" {
			continue
		}
		var sum resource.Quantity
		missing := ""
		for _, pod := range pods {
			if kind == "pods" {
				sum.Add(resource.MustParse("1"))
				continue
			}
			for _, c := range pod.Containers {
				value, ok := p.resources(c, kind)[of]
				if !ok {
					missing = c.Name
				}
				sum.Add(value)
			}
		}
		free := q.Spec.Hard[name].DeepCopy()
		free.Sub(q.Status.Used[name])
		switch {
		case missing != "":
			out = append(out, found(Quota, object, "it limits %s, which container %s does not set: its pods are refused", name, missing).as(Error))
		case sum.Cmp(free) > 0:
			out = append(out, found(Quota, object, "%s: %s left, but the pods need %s", name, free.String(), sum.String()).as(Error))
		}
	}
	return out
}

// counts reports whether a quota counts a pod of servingcert. Such a pod has no deadline, has requests, and has no
// affinity to pods in other namespaces.
func counts(q *corev1.ResourceQuota, pod corev1.PodSpec) bool {
	var requirements []corev1.ScopedResourceSelectorRequirement
	if q.Spec.ScopeSelector != nil {
		requirements = slices.Clone(q.Spec.ScopeSelector.MatchExpressions)
	}
	for _, scope := range q.Spec.Scopes {
		requirements = append(requirements, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	return !slices.ContainsFunc(requirements, func(r corev1.ScopedResourceSelectorRequirement) bool { return !matches(r, pod) })
}

// matches reports whether the pod is in the scope.
func matches(r corev1.ScopedResourceSelectorRequirement, pod corev1.PodSpec) bool {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return false
	case corev1.ResourceQuotaScopePriorityClass:
		switch r.Operator {
		case corev1.ScopeSelectorOpIn:
			return slices.Contains(r.Values, pod.PriorityClassName)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(r.Values, pod.PriorityClassName)
		case corev1.ScopeSelectorOpExists:
			return pod.PriorityClassName != ""
		case corev1.ScopeSelectorOpDoesNotExist:
			return pod.PriorityClassName == ""
		}
	}
	return true
}

// quotaOf returns what a resource of a quota limits: the kind (pods, requests or limits), and the
// requested resource. The kind is "" for a resource that pods of servingcert do not use.
func quotaOf(name corev1.ResourceName) (kind string, of corev1.ResourceName) {
	switch name {
	case corev1.ResourcePods, "count/pods":
		return "pods", ""
	case corev1.ResourceCPU, corev1.ResourceMemory:
		return "requests", name
	}
	kind, rest, ok := strings.Cut(string(name), ".")
	of = corev1.ResourceName(rest)
	if !ok || kind != "requests" && kind != "limits" || of != corev1.ResourceCPU && of != corev1.ResourceMemory {
		return "", ""
	}
	return kind, of
}

// resources returns the requests or the limits of a container, with the defaults of the
// LimitRanges.
func (p *Platform) resources(c corev1.Container, kind string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, r := range p.LimitRanges {
		for _, item := range r.Spec.Limits {
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			defaults := item.Default
			if kind == "requests" {
				defaults = item.DefaultRequest
			}
			for name, value := range defaults {
				out[name] = value
			}
		}
	}
	own := c.Resources.Limits
	if kind == "requests" {
		own = c.Resources.Requests
	}
	for name, value := range own {
		out[name] = value
	}
	return out
}

// limitRange returns the findings about a LimitRange that the containers violate.
func (p *Platform) limitRange(r *corev1.LimitRange) []Finding {
	var out []Finding
	object := "LimitRange " + r.Namespace + "/" + r.Name
	seen := map[string]bool{}
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !seen[text] {
			seen[text] = true
			out = append(out, found(LimitRanges, object, "%s", text))
		}
	}
	for _, item := range r.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		for _, pod := range p.Pods {
			for _, c := range pod.Containers {
				limits, requests := p.resources(c, "limits"), p.resources(c, "requests")
				for _, name := range sortedNames(item.Max) {
					if limit, ok := limits[name]; !ok {
						add("it has a maximum of %s, but container %s has no limit", name, c.Name)
					} else if limit.Cmp(item.Max[name]) > 0 {
						add("its maximum of %s is %s, but container %s has limit %s", name, quantity(item.Max, name), c.Name, limit.String())
					}
				}
				for _, name := range sortedNames(item.Min) {
					if request := requests[name]; request.Cmp(item.Min[name]) < 0 {
						add("its minimum of %s is %s, but container %s requests %s", name, quantity(item.Min, name), c.Name, request.String())
					}
				}
			}
		}
	}
	return out
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) string {
	q := list[name]
	return q.String()
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
