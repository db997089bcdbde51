package mutate

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// origin is where a pod's certificate and key come from: a Secret, or the pod's own
// kubelet, which makes the key. The zero origin is none.
type origin struct {
	secret  string
	podKeys bool
}

// originOf returns what the Service asks for; zero if it asks for nothing, or for a
// Secret whose name is not valid.
func originOf(svc *corev1.Service) origin {
	if api.WantsPodKeys(svc) {
		return origin{podKeys: true}
	}
	name, _ := api.Wants(svc)
	if !api.IsSubdomain(name) {
		return origin{}
	}
	return origin{secret: name}
}

// String says it to people.
func (o origin) String() string {
	if o.podKeys {
		return "keys made by pods"
	}
	return "Secret " + o.secret
}

// PodKey is what the volume says of the key that the kubelet makes.
type PodKey struct {
	Algorithm pki.KeyAlgorithm
	// Lifetime is the longest of a certificate; zero for the default of Kubernetes, 24 h.
	Lifetime time.Duration
}

// NoPodKeysError is a pod whose key its kubelet is to make, in a cluster where kubelets
// make none. The API server would leave the source of the volume empty.
type NoPodKeysError struct{ Service string }

func (e *NoPodKeysError) Error() string {
	return fmt.Sprintf("Service %q has %s: %s, and this cluster does not serve PodCertificateRequests: Kubernetes 1.37 does by default, and 1.36 with feature gate PodCertificateRequest and API certificates.k8s.io/v1beta1; or set %s: %s",
		e.Service, api.AnnotationKeySource, api.KeySourcePod, api.AnnotationKeySource, api.KeySourceSecret)
}

// The lifetimes that Kubernetes allows for a pod's certificate
// (PodCertificateProjection.maxExpirationSeconds).
const (
	minPodLifetime = time.Hour
	maxPodLifetime = 91 * 24 * time.Hour
)

// podKeyOf returns what the Service says of the keys of its pods. What the signer
// refuses counts as not said: the pod waits for its certificate.
func podKeyOf(svc *corev1.Service) *PodKey {
	r, err := api.Parse(svc, widestLimits(svc))
	if err != nil {
		return &PodKey{Algorithm: api.DefaultKeyAlgorithm}
	}
	key := &PodKey{Algorithm: r.Params.KeyAlgorithm}
	if r.Asked.Duration > 0 {
		key.Lifetime = min(max(r.Asked.Duration, minPodLifetime), maxPodLifetime)
	}
	return key
}

// isIn reports whether the sources have the pair from where it is to come, in files of
// the usual names.
func (c Choice) isIn(sources []corev1.VolumeProjection) bool {
	return slices.ContainsFunc(sources, func(s corev1.VolumeProjection) bool {
		if c.PodKey != nil {
			p := s.PodCertificate
			return p != nil && p.SignerName == api.SignerName && p.CertificateChainPath == corev1.TLSCertKey && p.KeyPath == corev1.TLSPrivateKeyKey
		}
		return s.Secret != nil && s.Secret.Name == c.Secret && !isTrue(s.Secret.Optional) &&
			projects(s.Secret.Items, corev1.TLSCertKey) && projects(s.Secret.Items, corev1.TLSPrivateKeyKey)
	})
}

// source returns the source of a volume with the pair, and with the combined file if it
// is wanted and comes from the same place.
func (c Choice) source(combined bool) corev1.VolumeProjection {
	if c.PodKey == nil {
		return secret(c.Secret, nil, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	p := &corev1.PodCertificateProjection{
		SignerName: api.SignerName, KeyType: string(c.PodKey.Algorithm),
		CertificateChainPath: corev1.TLSCertKey, KeyPath: corev1.TLSPrivateKeyKey,
	}
	if c.PodKey.Lifetime > 0 {
		seconds := int32(min(c.PodKey.Lifetime/time.Second, math.MaxInt32))
		p.MaxExpirationSeconds = &seconds
	}
	if combined {
		p.CredentialBundlePath = api.CombinedKey
	}
	return corev1.VolumeProjection{PodCertificate: p}
}
