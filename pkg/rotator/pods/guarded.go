package pods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// maxAdmits is the most that is kept of api.AnnotationAdmits: one byte more than any value that the webhook or the rotator
// writes, or the proxy reads.
const maxAdmits = api.MaxAdmits + 1

// guardedOf returns Template.Guarded.
func guardedOf(pod *corev1.Pod, labels string) string {
	proxy, ok := api.ProxyOf(pod)
	if !ok || !proxy.Has(api.ProxyFlagClients) || len(decodeLabels(labels)) < len(pod.Labels) {
		return ""
	}
	var names []string
	for _, l := range proxy.Listeners { // at most api.MaxProxyPorts
		names = append(names, l.Name)
	}
	return strings.Join(names, ",")
}

// GuardedPorts returns the names in Guarded.
func (t Template) GuardedPorts() []string {
	if t.Guarded == "" {
		return nil
	}
	return strings.Split(t.Guarded, ",")
}

// AdmitsWhole reports whether Admits is the whole annotation.
func (f *Facts) AdmitsWhole() bool { return len(f.Admits) < maxAdmits }
