package choose

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// origin is where a pod's certificate and key come from: a Secret, or the pod's own
// kubelet, which makes the key. The zero origin is none.
type origin struct {
	secret  string
	podKeys bool
}

// originOf returns the origin that the Service requests; zero if it requests none, or a
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

// String returns the origin for messages.
func (o origin) String() string {
	if o.podKeys {
		return "keys made by pods"
	}
	return "Secret " + o.secret
}

// The lifetimes that Kubernetes allows for a pod's certificate
// (PodCertificateProjection.maxExpirationSeconds).
const (
	minPodLifetime = time.Hour
	maxPodLifetime = 91 * 24 * time.Hour
)

// podKeyOf returns the Service's settings for the keys of its pods, or the defaults if the
// signer refuses the Service: then the pod waits for its certificate.
func podKeyOf(svc *corev1.Service) *volume.PodKey {
	r, err := api.Parse(svc, widestLimits(svc))
	if err != nil {
		return &volume.PodKey{Algorithm: api.DefaultKeyAlgorithm}
	}
	key := &volume.PodKey{Algorithm: r.Params.KeyAlgorithm}
	if r.Asked.Duration > 0 {
		key.Lifetime = min(max(r.Asked.Duration, minPodLifetime), maxPodLifetime)
	}
	return key
}
