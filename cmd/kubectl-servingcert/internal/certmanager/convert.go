package certmanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// check returns what of a certificate cannot be converted, and the path of the field; nil
// if it finds nothing.
type check func(w *world, c *certificate) (path []any, err error)

// checks lists all. The first that finds something says why the certificate stays.
var checks = []check{fields, alone, signed, server, otherFields}

func fields(_ *world, c *certificate) ([]any, error) {
	var wrong *json.UnmarshalTypeError
	if errors.As(c.problem, &wrong) {
		return []any{"spec"}, fmt.Errorf("%s: must not be a %s", strings.TrimPrefix(wrong.Field, "."), wrong.Value)
	}
	return []any{"spec"}, c.problem
}

// alone: a document can be left out, and an item of a List cannot.
func alone(_ *world, c *certificate) ([]any, error) {
	if len(c.At) > 0 {
		return nil, errors.New("in a List: write each object as a document of its own")
	}
	return nil, nil
}

// signed: the certificate is trusted because somebody put its CA into an object, as with
// ours, and not because of who signed it.
func signed(w *world, c *certificate) ([]any, error) {
	at := []any{"spec", "issuerRef"}
	ref := c.spec.IssuerRef
	if ref.Group != "" && ref.Group != group {
		return at, fmt.Errorf("issuer of group %q: only certificates of self-signed issuers, and of CAs that they sign, are converted", ref.Group)
	}
	i, ok := w.issuers[c.issuerKey()]
	if !ok {
		return at, fmt.Errorf("%s %q is not in these manifests: only certificates of self-signed issuers, and of CAs that they sign, are converted", c.issuerKey().kind, ref.Name)
	}
	if i.self {
		return nil, nil
	}
	if i.caSecret == "" {
		return at, fmt.Errorf("%s %q is of type %s: its CA is trusted elsewhere", i.Kind, i.Name, i.typeName())
	}
	if w.roots[c.issuerKey()] == nil {
		return at, fmt.Errorf("%s %q signs with the CA of Secret %q, which no self-signed Certificate of these manifests makes: its CA may be trusted elsewhere", i.Kind, i.Name, i.caSecret)
	}
	return nil, nil
}

// typeName returns how cert-manager calls what the issuer signs with.
func (i *issuer) typeName() string {
	names := map[string]string{"acme": "ACME, for public names", "vault": "Vault", "venafi": "Venafi"}
	for key := range members(i.Content, "spec") {
		if name, ok := names[key]; ok {
			return name
		}
	}
	return "none that is known"
}

func server(_ *world, c *certificate) ([]any, error) {
	if c.spec.IsCA {
		return []any{"spec", "isCA"}, errors.New("a CA: servingcert issues certificates of servers")
	}
	for i, usage := range c.spec.Usages {
		if !slices.Contains([]string{"digital signature", "signing", "key encipherment", "server auth"}, usage) {
			return []any{"spec", "usages", i}, fmt.Errorf("%q: servingcert issues certificates of servers, with usages digital signature and server auth", usage)
		}
	}
	return nil, nil
}

// unsupported are fields that a certificate of ours has no match for.
var unsupported = map[string]string{
	"ipAddresses":             "IP addresses of Services are in a certificate by annotation " + api.AnnotationClusterIPs + ", and no others",
	"uris":                    "certificates of Services have DNS names only",
	"emailAddresses":          "certificates of Services have DNS names only",
	"otherNames":              "certificates of Services have DNS names only",
	"literalSubject":          "certificates of Services have an empty subject",
	"nameConstraints":         "servingcert issues certificates of servers",
	"keystores":               "the password is in a Secret of yours: see annotation " + api.AnnotationFormats,
	"additionalOutputFormats": "the keys have other names here: see annotation " + api.AnnotationFormats,
}

func otherFields(_ *world, c *certificate) ([]any, error) {
	spec := members(c.Content, "spec")
	for _, name := range sorted(unsupported) {
		if value := spec[name]; value != nil {
			if list, ok := value.([]any); !ok || len(list) > 0 {
				return []any{"spec", name}, errors.New(unsupported[name])
			}
		}
	}
	return nil, nil
}

// convert decides about one certificate of a server: its Services are annotated, or it stays.
func (w *world) convert(c *certificate) {
	for _, check := range checks {
		if path, err := check(w, c); err != nil {
			w.keep(c.object, path, "%v", err)
			return
		}
	}
	r, index, err := w.readNames(c)
	if err != nil {
		path := []any{"spec", "dnsNames"}
		if index >= 0 {
			path = append(path, index)
		}
		w.keep(c.object, path, "%v", err)
		return
	}
	annotations := w.annotationsOf(c, r)
	for _, key := range r.services {
		if err := w.acceptable(w.services[key], annotations); err != nil {
			w.keep(c.object, nil, "Service %s: %v", key.Name, err)
			return
		}
	}
	if err := w.bundleInstead(c); err != nil {
		w.keep(c.object, []any{"spec", "secretName"}, "%v", err)
		return
	}
	c.gone = true
	for i, key := range r.services {
		if i == 1 {
			delete(annotations, api.AnnotationExtraDNSNames) // they are below the first
		}
		w.annotate(w.services[key], annotations)
	}
	w.noteLost(c, r)
}

// annotationsOf returns what the Services of a certificate ask for.
func (w *world) annotationsOf(c *certificate, r request) map[string]string {
	out := map[string]string{api.AnnotationSecretName: c.spec.SecretName}
	if len(r.extra) > 0 {
		out[api.AnnotationExtraDNSNames] = strings.Join(r.extra, ",")
	}
	if c.spec.Duration != "" {
		limits := api.DefaultLimits()
		if d, err := time.ParseDuration(c.spec.Duration); err != nil || d < limits.MinDuration || d > limits.MaxDuration {
			w.note(c.object, []any{"spec", "duration"}, "%q: not kept: must be between %gh and %gh; the certificate gets the signer's --default-duration and is renewed", c.spec.Duration, limits.MinDuration.Hours(), limits.MaxDuration.Hours())
		} else {
			out[api.AnnotationDuration] = c.spec.Duration
		}
	}
	if algorithm, ok := keyAlgorithm(c.spec.PrivateKey.Algorithm, c.spec.PrivateKey.Size); !ok {
		w.note(c.object, []any{"spec", "privateKey"}, "algorithm %q and size %d: not kept: see annotation %s", c.spec.PrivateKey.Algorithm, c.spec.PrivateKey.Size, api.AnnotationKeyAlgorithm)
	} else if algorithm != "" {
		out[api.AnnotationKeyAlgorithm] = algorithm
	}
	return out
}

// keyAlgorithm returns our name of a key algorithm, "" for the default; false for one that
// the signer does not have, or not by default.
func keyAlgorithm(name string, size int) (string, bool) {
	sizes := map[string][]int{"RSA": {2048, 3072}, "ECDSA": {256, 384, 521}}
	switch {
	case name == "" && size == 0:
		return "", true
	case name == "Ed25519":
		return string(pki.Ed25519), true
	case name == "":
		name = "RSA"
	}
	of, ok := sizes[name]
	if ok && size == 0 {
		size = of[0]
	}
	if !slices.Contains(of, size) {
		return "", false
	}
	if name == "ECDSA" {
		return fmt.Sprintf("ECDSAP%d", size), true
	}
	return fmt.Sprintf("RSA%d", size), true
}

// acceptable returns why the signer would refuse the Service with the annotations.
func (w *world) acceptable(o object, annotations map[string]string) error {
	var svc corev1.Service
	if err := decode(o.Content, &svc); err != nil {
		return err
	}
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	const key = api.AnnotationSecretName
	for _, other := range []string{svc.Annotations[key], w.pending[o.key()][key]} {
		if other != "" && other != annotations[key] {
			return fmt.Errorf("%s is %q already: a Service has one certificate", key, other)
		}
	}
	for key, value := range annotations {
		svc.Annotations[key] = value
	}
	svc.Namespace = o.Namespace
	limits := api.DefaultLimits()
	limits.ClusterDomain = w.clusterDomain
	_, err := api.Parse(&svc, limits)
	return err
}

// noteLost notes what of a converted certificate is not kept.
func (w *world) noteLost(c *certificate, r request) {
	if len(r.short) > 0 {
		w.note(c.object, []any{"spec", "dnsNames"}, "%s: not kept: short names are in no certificate; clients use SERVICE.NAMESPACE.svc", strings.Join(r.short, ", "))
	}
	spec := members(c.Content, "spec")
	for _, name := range []string{"commonName", "subject", "secretTemplate"} {
		if spec[name] != nil {
			w.note(c.object, []any{"spec", name}, "not kept: certificates have no subject, and Secrets only the signer's labels")
		}
	}
	if encoding, _ := members(spec, "privateKey")["encoding"].(string); encoding == "PKCS1" {
		w.note(c.object, []any{"spec", "privateKey", "encoding"}, "not kept: keys are written in PKCS #8")
	}
}
