package csr

import (
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
)

// Request is what is remembered of a CertificateSigningRequest: of one that has an answer,
// or is addressed to another signer, only its name.
type Request struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, UID and resource version only

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
	// PEM is the PKCS #10 request, and Size is how many bytes it has. PEM is empty if they
	// are more than maxPEM.
	PEM  []byte
	Size int
	// Conditions are all that the request has: one more is written beside them.
	Conditions []certificatesv1.CertificateSigningRequestCondition
}

// maxPEM is the most bytes of a PKCS #10 request that is read: 100 names of 253 characters
// and an RSA key have 40 KB.
const maxPEM = 64 << 10

// FactsOf returns what is remembered of a request.
func FactsOf(o *certificatesv1.CertificateSigningRequest) *Request {
	r := &Request{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
	if o.Spec.SignerName != api.SignerName || len(o.Status.Certificate) > 0 || has(o, certificatesv1.CertificateDenied) || has(o, certificatesv1.CertificateFailed) {
		return r
	}
	r.Pending, r.Approved = true, has(o, certificatesv1.CertificateApproved)
	r.Username, r.UserUID, r.Groups, r.Extra = o.Spec.Username, o.Spec.UID, o.Spec.Groups, o.Spec.Extra
	if o.Spec.ExpirationSeconds != nil {
		r.Lifetime = time.Duration(*o.Spec.ExpirationSeconds) * time.Second
	}
	r.Usages, r.Conditions, r.Size = o.Spec.Usages, o.Status.Conditions, len(o.Spec.Request)
	if r.Size <= maxPEM {
		r.PEM = slices.Clone(o.Spec.Request)
	}
	return r
}

func has(o *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == condition
	})
}

// IsPending reports whether the request is addressed to this signer, and was neither denied
// nor signed, nor has it failed.
func (r *Request) IsPending() bool { return r.Pending }

// Tenant returns in whose turn the request is looked at: the namespace of the
// ServiceAccount that asks, or the user, by a name that no namespace has.
func (r *Request) Tenant() string {
	if account, ok := strings.CutPrefix(r.Username, serviceAccountPrefix); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return namespace
	}
	return "user:" + r.Username
}

// share returns what a certificate for what is asked for takes of the limits.
func (r *Request) share(a asked) signer.Share {
	if pod, bound := r.Pod(); bound {
		return signer.ShareOfPod(r.UID, pod.Namespace, pod.UID)
	}
	return signer.ShareOfOther(r.UID, r.Tenant(), a.dnsNames, a.ips)
}

// serviceAccountPrefix is what user names of ServiceAccounts begin with; NAMESPACE:NAME
// follows.
const serviceAccountPrefix = "system:serviceaccount:"

// DeepCopyObject implements runtime.Object.
func (r *Request) DeepCopyObject() runtime.Object {
	out := *r
	out.Groups, out.Usages, out.PEM = slices.Clone(r.Groups), slices.Clone(r.Usages), slices.Clone(r.PEM)
	out.Conditions = slices.Clone(r.Conditions)
	out.Extra = maps.Clone(r.Extra)
	for key, values := range out.Extra {
		out.Extra[key] = slices.Clone(values)
	}
	return &out
}

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
