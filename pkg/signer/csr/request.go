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

// Request is the part of a CertificateSigningRequest that a decision depends on. It is read for
// each decision; only its Facts are cached.
type Request struct {
	Name            string
	UID             types.UID
	ResourceVersion string

	// Pending: as Facts.IsPending. Approved: by this signer or another approver.
	Pending, Approved bool
	// The requester, as the API server authenticated it.
	Username string
	UserUID  string
	Groups   []string
	Extra    map[string]certificatesv1.ExtraValue
	// Lifetime is the requested lifetime from now; 0 for the default.
	Lifetime time.Duration
	Usages   []certificatesv1.KeyUsage
	// PEM is the PKCS #10 request.
	PEM []byte
	// Conditions are all conditions of the request, which are written with a new one.
	Conditions []certificatesv1.CertificateSigningRequestCondition

	parsed *parsed // caches parse; the fields that it reads do not change
}

// maxPEM is the most bytes of a PKCS #10 request: 100 names of 253 characters and an RSA key
// have 40 KB.
const maxPEM = 64 << 10

// RequestOf returns the Request of an object.
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

// Approve updates the request after its approval.
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

// TenantOf returns the tenant in whose turn the requests of a user are decided: the namespace of
// a ServiceAccount, or a text with the user's name that is not a valid namespace.
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

// maxTenant is the most bytes of a tenant's name; a longer one is hashed.
const maxTenant = 253

// Tenant returns the TenantOf the requester.
func (r *Request) Tenant() string { return TenantOf(r.Username) }

// share returns the part of the rate limits that the certificate uses.
func (r *Request) share(a asked) ratelimit.Share {
	if pod, bound := r.Pod(); bound {
		return ratelimit.ShareOfPod(r.UID, pod.Namespace, pod.UID)
	}
	return ratelimit.ShareOfOther(r.UID, r.Tenant(), a.dnsNames, a.ips)
}

// serviceAccountPrefix is the prefix of user names of ServiceAccounts, before NAMESPACE:NAME.
const serviceAccountPrefix = "system:serviceaccount:"

// PodReference is the pod to which the token of a requester is bound.
type PodReference struct {
	types.NamespacedName
	UID            types.UID
	ServiceAccount string
}

// Keys of spec.extra, which the API server sets for a requester whose token is bound to a pod.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// Pod returns the pod to which the requester's token is bound, and false if the requester
// is not a ServiceAccount or its token is not bound to a pod.
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

// is reports whether pod is the referenced one and is not being deleted.
func (p PodReference) is(pod *corev1.Pod) bool {
	return pod != nil && pod.UID == p.UID && pod.DeletionTimestamp == nil && pod.Spec.ServiceAccountName == p.ServiceAccount
}
