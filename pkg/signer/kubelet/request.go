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

// Request is the part of a CertificateSigningRequest that a decision depends on. It is read for
// each decision; only its Facts are cached.
type Request struct {
	Name string
	UID  types.UID
	// Created is the creation time, by the API server's clock.
	Created time.Time
	// Pending: it is for SignerName, and has neither a condition nor a certificate.
	Pending bool
	// The requester, as the API server authenticated it.
	Username string
	Groups   []string
	// Lifetime is the requested lifetime; 0 if there is none.
	Lifetime time.Duration
	Usages   []certificatesv1.KeyUsage
	// PEM is the PKCS #10 request.
	PEM []byte
}

// SignerName is the signer of the serving certificates of kubelets.
const SignerName = certificatesv1.KubeletServingSignerName

// RequestOf returns the Request of an object.
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

// The user name and the group of kubelets.
const (
	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// NodeName returns the name of the requester's Node, and false if the requester is not a node.
func (r *Request) NodeName() (string, bool) {
	name, ok := strings.CutPrefix(r.Username, userPrefix)
	return name, ok && name != "" && slices.Contains(r.Groups, nodesGroup)
}

// Facts is the part of a request that is cached: the tenant of a pending one, and the identity
// of any.
type Facts struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, UID and resource version only

	pending bool
	tenant  string
}

// FactsOf returns the Facts of a request.
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

// Tenant returns the csr.TenantOf the requester of a pending request, "" for any other.
func (f *Facts) Tenant() string { return f.tenant }

// TenantOf returns the tenant of the requests of a Node.
func TenantOf(node string) string { return csr.TenantOf(userPrefix + node) }

// DeepCopyObject implements runtime.Object.
func (f *Facts) DeepCopyObject() runtime.Object {
	out := *f
	return &out
}
