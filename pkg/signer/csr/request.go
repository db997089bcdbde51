package csr

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Request is a CertificateSigningRequest as it is decided about. It is read for that: of one
// that waits, only its Facts are kept.
type Request struct {
	Name            string
	UID             types.UID
	ResourceVersion string

	// Pending: it is addressed to this signer, and was neither denied nor signed, nor has
	// it failed. Approved: by this signer or by somebody else.
	Pending, Approved bool
	// The requester, as the API server authenticated it.
	Username string
	UserUID  string
	Groups   []string
	Extra    map[string]certificatesv1.ExtraValue
	// Lifetime is how long the certificate is to be valid from now; 0 if that was not said.
	Lifetime time.Duration
	Usages   []certificatesv1.KeyUsage
	// PEM is the PKCS #10 request.
	PEM []byte
	// Conditions are all that the request has: one more is written beside them.
	Conditions []certificatesv1.CertificateSigningRequestCondition

	parsed *parsed // of the other fields, which do not change after that
}

// maxPEM is the most bytes of a PKCS #10 request that is read: 100 names of 253 characters
// and an RSA key have 40 KB.
const maxPEM = 64 << 10

// RequestOf returns what is decided about.
func RequestOf(o *certificatesv1.CertificateSigningRequest) *Request {
	r := &Request{
		Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		Pending: isPending(o), Approved: has(o, certificatesv1.CertificateApproved),
		Username: o.Spec.Username, UserUID: o.Spec.UID, Groups: o.Spec.Groups, Extra: o.Spec.Extra,
		Usages: o.Spec.Usages, PEM: o.Spec.Request, Conditions: o.Status.Conditions,
	}
	if o.Spec.ExpirationSeconds != nil {
		r.Lifetime = time.Duration(*o.Spec.ExpirationSeconds) * time.Second
	}
	return r
}

// Approve makes the request the one that it is since it was approved.
func (r *Request) Approve(approved *certificatesv1.CertificateSigningRequest) {
	was := r.parsed
	*r = *RequestOf(approved)
	r.parsed = was // its spec does not change
}

func isPending(o *certificatesv1.CertificateSigningRequest) bool {
	return o.Spec.SignerName == api.SignerName && len(o.Status.Certificate) == 0 &&
		!has(o, certificatesv1.CertificateDenied) && !has(o, certificatesv1.CertificateFailed)
}

func has(o *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == condition
	})
}

// TenantOf returns in whose turn the requests of a user are looked at: the namespace of the
// ServiceAccount that asks, or the user, by a name that no namespace has.
func TenantOf(username string) string {
	if account, ok := strings.CutPrefix(username, serviceAccountPrefix); ok {
		namespace, _, _ := strings.Cut(account, ":")
		username = namespace
	} else {
		username = "user:" + username
	}
	if len(username) > maxTenant {
		return fmt.Sprintf("user:%x", sha256.Sum256([]byte(username)))
	}
	return username
}

// maxTenant is the most bytes of the name of a tenant that are kept.
const maxTenant = 253

// Tenant returns in whose turn the request is looked at.
func (r *Request) Tenant() string { return TenantOf(r.Username) }

// share returns what a certificate for what is asked for takes of the limits.
func (r *Request) share(a asked) ratelimit.Share {
	if pod, bound := r.Pod(); bound {
		return ratelimit.ShareOfPod(r.UID, pod.Namespace, pod.UID)
	}
	return ratelimit.ShareOfOther(r.UID, r.Tenant(), a.dnsNames, a.ips)
}

// serviceAccountPrefix is what user names of ServiceAccounts begin with; NAMESPACE:NAME
// follows.
const serviceAccountPrefix = "system:serviceaccount:"

// PodReference is the pod to which the token of a requester is bound.
type PodReference struct {
	types.NamespacedName
	UID            types.UID
	ServiceAccount string
}

// What the API server says in spec.extra of a requester whose token is bound to a pod.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// Pod returns the pod to which the requester's token is bound, and false if the requester
// is no ServiceAccount or its token is bound to no pod.
func (r *Request) Pod() (PodReference, bool) {
	account, ok := strings.CutPrefix(r.Username, serviceAccountPrefix)
	if !ok {
		return PodReference{}, false
	}
	namespace, name, ok := strings.Cut(account, ":")
	pod, uid := r.Extra[extraPodName], r.Extra[extraPodUID]
	if !ok || len(pod) != 1 || len(uid) != 1 {
		return PodReference{}, false
	}
	return PodReference{types.NamespacedName{Namespace: namespace, Name: pod[0]}, types.UID(uid[0]), name}, true
}

// is reports whether the pod is the one that is referred to, and lives.
func (p PodReference) is(pod *corev1.Pod) bool {
	return pod != nil && pod.UID == p.UID && pod.DeletionTimestamp == nil && pod.Spec.ServiceAccountName == p.ServiceAccount
}
