package certmanager

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// request is what the Services of a certificate are annotated with.
type request struct {
	services []types.NamespacedName // that the certificate names, in its order
	extra    []string               // names below those of the first Service
	short    []string               // names that no certificate of ours has
}

// readNames sorts the names of a certificate, whose Services are in the manifests. The
// index is that of the name that the error is about.
func (w *world) readNames(c *certificate) (r request, index int, err error) {
	var below []string
	for i, name := range c.spec.DNSNames {
		if why := placeholder(name); why != "" {
			return r, i, fmt.Errorf("%q: %s", name, why)
		}
		key, left, whole := w.service(c.Namespace, name)
		switch {
		case key.Name == "":
			return r, i, fmt.Errorf("%q: not a name of a Service of these manifests in namespace %q: certificates are issued for SERVICE.NAMESPACE.svc, SERVICE.NAMESPACE.svc.%s and names below them", name, c.Namespace, w.clusterDomain)
		case !whole:
			r.short = append(r.short, name)
			continue
		case left != "" && (left != "*" || !w.headless[key]):
			below = append(below, name)
		}
		if !slices.Contains(r.services, key) {
			r.services = append(r.services, key)
		}
	}
	if len(r.services) == 0 {
		return r, -1, fmt.Errorf("names no SERVICE.NAMESPACE.svc, the only names that certificates are issued for")
	}
	r.extra = below
	return r, -1, nil
}

// placeholder explains a name that kustomize has not replaced yet.
func placeholder(name string) string {
	if strings.Contains(name, "$(") || strings.ContainsAny(name, "_") {
		return "a placeholder: give what kustomize build prints (kustomize build config/default | kubectl servingcert migrate cert-manager -f -)"
	}
	return ""
}

// service returns which Service of the manifests a name is of, what is left of the
// Service's own name, and whether the name ends in svc or below it. The key is empty for
// no Service.
func (w *world) service(namespace, name string) (key types.NamespacedName, left string, whole bool) {
	host := strings.TrimSuffix(name, ".")
	if short, ok := strings.CutSuffix(host, ".svc."+w.clusterDomain); ok {
		host, whole = short, true
	} else if short, ok := strings.CutSuffix(host, ".svc"); ok {
		host, whole = short, true
	}
	labels := strings.Split(host, ".")
	at := len(labels) - 1 // of the Service
	if whole || len(labels) == 2 {
		if labels[at] != namespace {
			return key, "", whole
		}
		at--
	}
	if at < 0 || at > 0 && !whole {
		return key, "", whole
	}
	found := types.NamespacedName{Namespace: namespace, Name: labels[at]}
	if _, ok := w.services[found]; !ok {
		return key, "", whole
	}
	return found, strings.Join(labels[:at], "."), whole
}
