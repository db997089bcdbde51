package certmanager

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// findRoots fills in roots.
func (w *world) findRoots() {
	bySecret := map[types.NamespacedName]*certificate{}
	for _, c := range w.certificates {
		if by, ok := w.issuers[c.issuerKey()]; ok && by.self && c.spec.IsCA && c.problem == nil {
			bySecret[c.secret()] = c
		}
	}
	for key, i := range w.issuers {
		// The Secret of a ClusterIssuer is in the namespace of cert-manager itself, so that it
		// is found if the manifests are for that (-n cert-manager).
		if c, ok := bySecret[types.NamespacedName{Namespace: i.Namespace, Name: i.caSecret}]; ok && i.caSecret != "" {
			w.roots[key], w.isRoot[c] = c, true
		}
	}
}

// decideRoot leaves out a CA whose issuers are left out, unless something else reads its Secret.
func (w *world) decideRoot(c *certificate) {
	if len(c.At) > 0 {
		return
	}
	for key, i := range w.issuers {
		if w.roots[key] == c && !i.gone {
			return // the certificate or the issuer that stays says why
		}
	}
	for _, o := range w.all {
		if o.group() != group && len(references(o, c.secret())) > 0 {
			w.keep(c.object, nil, "%s %s reads its Secret %q: the CA bundle is in ConfigMap %s of the namespace", o.Kind, o.Name, c.spec.SecretName, api.BundleName)
			return
		}
	}
	c.gone = true
}

// leaveOut leaves out the issuers that signed nothing but what is left out.
func (w *world) leaveOut(of func(*issuer) bool) {
	for key, i := range w.issuers {
		if !of(i) || len(i.At) > 0 {
			continue
		}
		used, stays := false, false
		for _, c := range w.certificates {
			if c.issuerKey() == key {
				used, stays = true, stays || !c.gone
			}
		}
		for _, o := range w.all {
			stays = stays || o.annotations()[annotationDomain+"issuer"] == i.Name && o.Namespace == i.Namespace
		}
		switch {
		case !used || stays:
		case i.Kind == kindClusterIssuer:
			w.note(i.object, nil, "stays, as certificates of other manifests may be of it: remove it if there are none")
		default:
			i.gone = true
		}
	}
}

// decideObject leaves an object out, replaces its annotation, or says why it stays.
func (w *world) decideObject(o object) {
	if o.group() == group || strings.HasSuffix(o.group(), "."+group) {
		w.decideOwn(o)
		return
	}
	for _, key := range sorted(o.annotations()) {
		if strings.HasPrefix(key, annotationDomain) {
			w.decideAnnotation(o, key, o.annotations()[key])
		}
	}
}

// decideOwn decides about an object of cert-manager's. What was decided already is in
// certificates and issuers.
func (w *world) decideOwn(o object) {
	switch {
	case o.is(kindCertificate):
		for _, c := range w.certificates {
			w.without[o.doc] = w.without[o.doc] || c.gone && c.doc == o.doc
		}
	case o.is(kindIssuer), o.is(kindClusterIssuer):
		i := w.issuers[o.issuer().issuerKey()]
		if w.without[o.doc] = i.gone; !i.self && i.caSecret == "" {
			w.keep(o, []any{"spec"}, "type %s: only self-signed issuers, and CAs that they sign, are converted", i.typeName())
		}
	default:
		w.keep(o, nil, "there is nothing like it in servingcert")
	}
}

// others says what annotations of cert-manager's mean that are not converted.
var others = map[string]string{
	"inject-ca-from-secret": "injects a CA of a Secret of yours",
	"inject-apiserver-ca":   "injects the CA of the API server",
	"issuer":                "asks for a certificate of an Ingress or a Gateway: for names outside of the cluster",
	"cluster-issuer":        "asks for a certificate of an Ingress or a Gateway: for names outside of the cluster",
}

func (w *world) decideAnnotation(o object, key, value string) {
	path := []any{"metadata", "annotations", key}
	if key != injectCAFrom {
		why, ok := others[strings.TrimPrefix(key, annotationDomain)]
		if !ok {
			why = "is read by cert-manager"
		}
		w.keep(o, path, "%s", why)
		return
	}
	if why := placeholder(value); why != "" {
		w.keep(o, path, "%q: %s", value, why)
		return
	}
	namespace, name, _ := strings.Cut(value, "/")
	for _, c := range w.certificates {
		if c.key() != (types.NamespacedName{Namespace: namespace, Name: name}) {
			continue
		}
		if !c.gone {
			w.keep(o, path, "Certificate %s is not converted", value)
			return
		}
		w.edit(o, "annotations", map[string]string{api.AnnotationInjectCABundle: "true"}, key)
		w.noteNamed(o)
		return
	}
	w.keep(o, path, "Certificate %q is not in these manifests", value)
}

// noteNamed notes that webhook configurations must be named.
func (w *world) noteNamed(o object) {
	values := map[string]string{
		"MutatingWebhookConfiguration":   "trust.mutatingWebhookConfigurations",
		"ValidatingWebhookConfiguration": "trust.validatingWebhookConfigurations",
	}
	if value, ok := values[o.Kind]; ok {
		w.note(o, nil, "the rotator may write it only if it is named in value %s of the chart, or in a ClusterRole", value)
	}
}
