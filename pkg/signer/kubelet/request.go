package kubelet

import (
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// Request is a CertificateSigningRequest as it is decided about. It is read for that: of one
// that waits, only its Facts are kept.
type Request struct {
	Name string
	UID  types.UID
	// Created is when it was made, by the API server's clock.
	Created time.Time
	// Pending: it is for SignerName, and has neither a condition nor a certificate.
	Pending bool
	// The requester, as the API server authenticated it.
	Username string
	Groups   []string
	// Lifetime is how long the certificate is to be valid; 0 if that was not said.
	Lifetime time.Duration
	Usages   []certificatesv1.KeyUsage
	// PEM is the PKCS #10 request.
	PEM []byte
}

// SignerName is the signer of the certificates that kubelets serve.
const SignerName = certificatesv1.KubeletServingSignerName

// RequestOf returns what is decided about.
func RequestOf(o *certificatesv1.CertificateSigningRequest) *Request {
	r := &Request{
		Name: o.Name, UID: o.UID, Created: o.CreationTimestamp.Time, Pending: isPending(o),
		Username: o.Spec.Username, Groups: o.Spec.Groups, Usages: o.Spec.Usages, PEM: o.Spec.Request,
	}
	if o.Spec.ExpirationSeconds != nil {
		r.Lifetime = time.Duration(*o.Spec.ExpirationSeconds) * time.Second
	}
	return r
}

func isPending(o *certificatesv1.CertificateSigningRequest) bool {
	return o.Spec.SignerName == SignerName && len(o.Status.Conditions) == 0 && len(o.Status.Certificate) == 0
}

// What the API server calls a kubelet.
const (
	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// NodeName returns the name of the Node that makes the request, and false if no node does.
func (r *Request) NodeName() (string, bool) {
	name, ok := strings.CutPrefix(r.Username, userPrefix)
	return name, ok && name != "" && slices.Contains(r.Groups, nodesGroup)
}

// Facts is what is remembered of a request: of one that waits, in whose turn it does; of any
// other only its name.
type Facts struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, UID and resource version only

	pending bool
	tenant  string
}

// FactsOf returns what is remembered of a request.
func FactsOf(o *certificatesv1.CertificateSigningRequest) *Facts {
	f := &Facts{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
	if isPending(o) {
		f.pending, f.tenant = true, strings.Clone(csr.TenantOf(o.Spec.Username))
	}
	return f
}

// IsPending reports whether the request is for SignerName, and has neither a condition nor a
// certificate.
func (f *Facts) IsPending() bool { return f.pending }

// Tenant returns in whose turn the request is looked at: who asks, by a name that no namespace
// has, and of bounded size. It is empty of one that is not pending.
func (f *Facts) Tenant() string { return f.tenant }

// TenantOf returns the Tenant of the requests of a Node.
func TenantOf(node string) string { return csr.TenantOf(userPrefix + node) }

// DeepCopyObject implements runtime.Object.
func (f *Facts) DeepCopyObject() runtime.Object {
	out := *f
	return &out
}
