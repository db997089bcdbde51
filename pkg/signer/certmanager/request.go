package certmanager

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// APIVersion and Kind are those of a request.
const (
	APIVersion = Group + "/v1"
	Kind       = "CertificateRequest"
)

// Labels and annotations of a request, and of the Secret that keeps its key.
const (
	// labelRole distinguishes requests for certificates from probes.
	labelRole   = api.Domain + "/role"
	roleRequest = "request"
	roleProbe   = "probe"
	// AnnotationFor is the owner of the certificate, for people and for approval policies:
	// NAMESPACE/NAME of the Secret, or ForCSR and the tenant who created a CertificateSigningRequest.
	AnnotationFor = api.Domain + "/for"
	// ForCSR has a character that no namespace has.
	ForCSR = "csr:"
	// pendingSuffix follows the instance in the value of api.LabelManagedBy, so that the
	// signer's cache of managed Secrets does not select these.
	pendingSuffix = ".pending"
	// MaxInstance is the longest instance for which Labels returns a valid label.
	MaxInstance = validation.LabelValueMaxLength - len(pendingSuffix)
)

// Labels returns the labels of all objects that a signer of the instance creates here.
func Labels(instance string) map[string]string {
	return map[string]string{api.LabelManagedBy: instance + pendingSuffix}
}

// Request is a CertificateRequest, with the fields that are used.
type Request struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is the spec of a Request.
type Spec struct {
	Duration  metav1.Duration `json:"duration"`
	IssuerRef Issuer          `json:"issuerRef"`
	Request   []byte          `json:"request"` // PEM
	Usages    []string        `json:"usages"`
}

// Status is the status of a Request.
type Status struct {
	Conditions  []metav1.Condition `json:"conditions,omitempty"`
	Certificate []byte             `json:"certificate,omitempty"` // PEM: the leaf first
	CA          []byte             `json:"ca,omitempty"`          // PEM
	FailureTime *metav1.Time       `json:"failureTime,omitempty"`
}

// FromObject decodes a CertificateRequest.
func FromObject(object map[string]any) (*Request, error) {
	r := &Request{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, r); err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	return r, nil
}

// Object returns the object to create.
func (r *Request) Object() (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	delete(object, "status")
	return object, nil
}

// NameOf returns the name of the request for a certificate, and of the Secret with its key. It
// depends only on the arguments.
func NameOf(issuer Issuer, owner string, wanted api.Wanted) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %d", issuer.String(), owner, wanted.DNSNames, fmt.Sprint(wanted.IPs), wanted.Params.KeyAlgorithm, wanted.Params.Duration)
	return "servingcert-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Wish has the content of a new Request.
type Wish struct {
	Namespace, Name, Instance string
	For                       string // value of AnnotationFor
	Issuer                    Issuer
	Probe                     bool
	issue.SigningRequest
}

// New returns the Request to create at now.
func (w Wish) New(now time.Time) *Request {
	labels := Labels(w.Instance)
	if labels[labelRole] = roleRequest; w.Probe {
		labels[labelRole] = roleProbe
	}
	usages := []string{"digital signature", "server auth"}
	if w.KeyAlgorithm.IsRSA() {
		usages = append(usages, "key encipherment")
	}
	return &Request{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: w.Name, Labels: labels,
			Annotations: map[string]string{AnnotationFor: w.For},
		},
		Spec: Spec{Duration: metav1.Duration{Duration: w.NotAfter.Sub(now) - clockMargin}, IssuerRef: w.Issuer, Request: w.CSR, Usages: usages},
	}
}

// clockMargin is subtracted from the requested lifetime: it starts when the issuer signs, by the
// issuer's clock, and a certificate that ends too late is refused.
const clockMargin = time.Minute

// NewCSR returns a certificate signing request in PEM with the names: cert-manager issuers take
// the names from it.
func NewCSR(key crypto.Signer, dnsNames []string, ips []netip.Addr) ([]byte, error) {
	template := &x509.CertificateRequest{DNSNames: dnsNames}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("create certificate request: %w", err)
	}
	return issue.EncodeCSR(der), nil
}

// IsProbe reports whether the request is a probe.
func (r *Request) IsProbe() bool { return r.Labels[labelRole] == roleProbe }

// Tenant returns the TenantOf the request.
func (r *Request) Tenant() string { return TenantOf(&r.ObjectMeta) }

// TenantOf returns the namespace of the Secret that a request, or a key, is for, or the tenant who
// created the CertificateSigningRequest. It is empty for a probe.
func TenantOf(object *metav1.ObjectMeta) string {
	if tenant, ok := strings.CutPrefix(object.Annotations[AnnotationFor], ForCSR); ok {
		return tenant
	}
	namespace, _, ok := strings.Cut(object.Annotations[AnnotationFor], "/")
	if !ok {
		return ""
	}
	return namespace
}

// ProbeName returns the name of a probe that is created at now.
func ProbeName(now time.Time) string { return "servingcert-probe-" + strconv.FormatInt(now.Unix(), 10) }

// signerOf returns the certificate that signed the leaf, or nil.
func signerOf(leaf *x509.Certificate, among []*x509.Certificate) *x509.Certificate {
	for _, c := range among {
		if !c.Equal(leaf) && leaf.CheckSignatureFrom(c) == nil {
			return c
		}
	}
	return nil
}
