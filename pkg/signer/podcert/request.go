package podcert

import (
	"maps"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// Request is the part of a PodCertificateRequest that is cached: only the identity of one that
// has an answer, or is for another signer.
type Request struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, namespace, UID and resource version only

	// Pending: it is for a signer of ours, and has no answer.
	Pending bool
	// Client: it is for api.ClientSignerName, and not for api.SignerName.
	Client             bool
	PodName            string
	PodUID             types.UID
	NodeName           string
	ServiceAccountName string
	// MaxLifetime is the longest lifetime that the request permits.
	MaxLifetime time.Duration
	// CSR is a PKCS #10 request in DER. Only its key is used. The API server has
	// verified that the kubelet has the private key. It is empty if the kubelet sent only the
	// public key, as in Kubernetes 1.35.
	CSR []byte
	// Options are the keys of spec.unverifiedUserAnnotations, sorted. This signer supports
	// none.
	Options []string
}

// Limits of what is cached. The API server's own limits are higher.
const (
	maxCSR     = 8 << 10 // an RSA key of 8192 bits needs less than 3 KiB; names in the CSR are ignored
	maxOptions = 8
	maxOption  = 80 // characters of a key
)

// FactsOf returns the Request of an object.
func FactsOf(r *certificatesv1.PodCertificateRequest) *Request {
	return factsOf(&r.ObjectMeta, r.Spec, r.Status.Conditions)
}

// FactsOfBeta is FactsOf for v1beta1.
func FactsOfBeta(r *certificatesv1beta1.PodCertificateRequest) *Request {
	return factsOf(&r.ObjectMeta, certificatesv1.PodCertificateRequestSpec{
		SignerName:                r.Spec.SignerName,
		PodName:                   r.Spec.PodName,
		PodUID:                    r.Spec.PodUID,
		ServiceAccountName:        r.Spec.ServiceAccountName,
		NodeName:                  r.Spec.NodeName,
		MaxExpirationSeconds:      r.Spec.MaxExpirationSeconds,
		StubPKCS10Request:         r.Spec.StubPKCS10Request,
		UnverifiedUserAnnotations: r.Spec.UnverifiedUserAnnotations,
	}, r.Status.Conditions)
}

func factsOf(meta *metav1.ObjectMeta, spec certificatesv1.PodCertificateRequestSpec, answer []metav1.Condition) *Request {
	r := &Request{ObjectMeta: metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
	}}
	r.Client = spec.SignerName == api.ClientSignerName
	if !r.Client && spec.SignerName != api.SignerName || len(answer) > 0 {
		return r
	}
	r.Pending = true
	r.PodName, r.PodUID = spec.PodName, spec.PodUID
	r.NodeName, r.ServiceAccountName = string(spec.NodeName), spec.ServiceAccountName
	if spec.MaxExpirationSeconds != nil {
		r.MaxLifetime = time.Duration(*spec.MaxExpirationSeconds) * time.Second
	}
	if len(spec.StubPKCS10Request) <= maxCSR {
		r.CSR = slices.Clone(spec.StubPKCS10Request)
	}
	if len(spec.UnverifiedUserAnnotations) > 0 {
		keys := slices.Sorted(maps.Keys(spec.UnverifiedUserAnnotations))
		for _, key := range keys[:min(len(keys), maxOptions)] {
			r.Options = append(r.Options, api.Shorten(key, maxOption))
		}
	}
	return r
}

// IsPending reports whether the request is for this signer and has no answer.
func (r *Request) IsPending() bool { return r.Pending }

// Tenant returns the namespace in whose turn the request is decided.
func (r *Request) Tenant() string { return r.Namespace }

// DeepCopyObject implements runtime.Object.
func (r *Request) DeepCopyObject() runtime.Object {
	out := *r
	out.CSR, out.Options = slices.Clone(r.CSR), slices.Clone(r.Options)
	return &out
}
