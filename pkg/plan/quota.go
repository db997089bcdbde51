package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// counted are the resources of ResourceQuotas that a proxy uses in each pod.
var counted = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// quotas returns a note for each ResourceQuota of the namespace that counts the resources of a proxy.
func (b *Builder) quotas(namespace string) (out []string) {
	for _, q := range b.opts.Quotas {
		if q.Namespace != namespace {
			continue
		}
		var left []string
		for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			if !slices.Contains(counted, name) {
				continue
			}
			rest := q.Spec.Hard[name].DeepCopy()
			rest.Sub(q.Status.Used[name])
			left = append(left, fmt.Sprintf("%s %s", rest.String(), name))
		}
		if len(left) > 0 {
			out = append(out, fmt.Sprintf("ResourceQuota %s counts the proxy in each pod; still available: %s", q.Name, strings.Join(left, ", ")))
		}
	}
	return out
}
