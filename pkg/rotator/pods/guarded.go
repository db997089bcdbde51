package pods

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// HashOfAdmits returns the hash of a value of api.AnnotationAdmits.
func HashOfAdmits(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// guardedOf returns Template.Guarded.
func guardedOf(pod *corev1.Pod, labels string) string {
	proxy, ok := api.ProxyOf(pod)
	guards := func(arg string) bool { return strings.HasPrefix(arg, api.ProxyFlagClients+"=") }
	if !ok || !slices.ContainsFunc(proxy.Args, guards) || len(decodeLabels(labels)) < len(pod.Labels) {
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
