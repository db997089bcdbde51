package certmanager

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/preview"
)

// Keys and values of cert-manager's, whose API is cert-manager.io/v1
// (https://cert-manager.io/docs/reference/annotations/).
const (
	group            = "cert-manager.io"
	annotationDomain = "cert-manager.io/"
	injectCAFrom     = annotationDomain + "inject-ca-from"

	kindIssuer        = "Issuer"
	kindClusterIssuer = "ClusterIssuer"
	kindCertificate   = "Certificate"
)

// object is one object of the manifests.
type object struct {
	preview.Object
	doc   int // its document
	file  string
	lines preview.Lines
}

func (o object) key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// group returns the API group.
func (o object) group() string {
	name, _, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		return ""
	}
	return name
}

// is reports whether the object is of a kind of cert-manager's.
func (o object) is(kind string) bool { return o.group() == group && o.Kind == kind }

// line returns the line of a field of the object, or of the nearest that contains it.
func (o object) line(path ...any) int {
	return o.lines.Of(append(append([]any{}, o.At...), path...)...)
}

// annotations returns those of the object that have a string.
func (o object) annotations() map[string]string {
	out := map[string]string{}
	for key, value := range members(o.Content, "metadata", "annotations") {
		if s, ok := value.(string); ok {
			out[key] = s
		}
	}
	return out
}

// certificate is a Certificate, as far as something follows from its fields.
type certificate struct {
	object
	spec struct {
		SecretName string   `json:"secretName"`
		DNSNames   []string `json:"dnsNames"`
		Duration   string   `json:"duration"`
		IsCA       bool     `json:"isCA"`
		Usages     []string `json:"usages"`
		IssuerRef  struct {
			Name  string `json:"name"`
			Kind  string `json:"kind"`
			Group string `json:"group"`
		} `json:"issuerRef"`
		PrivateKey struct {
			Algorithm string `json:"algorithm"`
			Size      int    `json:"size"`
		} `json:"privateKey"`
	}
	problem error // the fields have other types
	gone    bool  // it is left out
}

func (o object) certificate() *certificate {
	c := &certificate{object: o}
	c.problem = decode(o.Content["spec"], &c.spec)
	return c
}

func (c *certificate) secret() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.spec.SecretName}
}

// issuer is an Issuer or a ClusterIssuer.
type issuer struct {
	object
	// caSecret is the name of the Secret with the CA that signs; "" if it is another kind of issuer.
	caSecret string
	// self: it signs each certificate with the key of that certificate.
	self bool
	gone bool
}

func (o object) issuer() *issuer {
	i := &issuer{object: o}
	spec := members(o.Content, "spec")
	_, i.self = spec["selfSigned"]
	i.caSecret, _ = members(spec, "ca")["secretName"].(string)
	return i
}

// issuerKey identifies an issuer. The namespace of a ClusterIssuer is empty.
type issuerKey struct{ kind, namespace, name string }

func (i *issuer) issuerKey() issuerKey {
	key := issuerKey{i.Kind, i.Namespace, i.Name}
	if i.Kind == kindClusterIssuer {
		key.namespace = ""
	}
	return key
}

// issuerKey returns which issuer signs the certificate.
func (c *certificate) issuerKey() issuerKey {
	if c.spec.IssuerRef.Kind == kindClusterIssuer {
		return issuerKey{kindClusterIssuer, "", c.spec.IssuerRef.Name}
	}
	return issuerKey{kindIssuer, c.Namespace, c.spec.IssuerRef.Name}
}

// decode reads a value of JSON into a struct.
func decode(value, into any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// members returns the members of the object at a path, nil if there is none.
func members(content map[string]any, path ...string) map[string]any {
	for _, name := range path {
		content, _ = content[name].(map[string]any)
	}
	return content
}
