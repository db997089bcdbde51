package choose

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// service is the view of a Service in a decision about a pod, which builds it once.
type service struct {
	*corev1.Service
	// asks is true if the Service requests a certificate that its pods get.
	asks bool
	// from is the origin that it requests. It is zero if it requests none, or one that no pod gets.
	from origin
	// tooLarge is why a Service that requests a certificate is too large, or nil; see api.CheckSize.
	tooLarge error
	// selects is true if it selects the pod.
	selects bool
	// targets are the api.TLSTargets of a Service that requests an origin and selects the pod.
	targets []intstr.IntOrString
}

// origin is where a pod's certificate and key come from: a Secret, or the pod's own
// kubelet, which makes the key. The zero origin is none.
type origin struct {
	secret  string
	podKeys bool
}

// String returns the origin for messages.
func (o origin) String() string {
	if o.podKeys {
		return "keys made by pods"
	}
	return "Secret " + o.secret
}

// viewsOf returns the view of each Service, in the same order.
func viewsOf(services []*corev1.Service, pod *corev1.Pod) []service {
	views := make([]service, len(services))
	for i, svc := range services {
		views[i] = viewOf(svc, pod)
	}
	return views
}

func viewOf(svc *corev1.Service, pod *corev1.Pod) service {
	s := service{Service: svc, selects: api.Selects(svc, pod)}
	if api.HasOtherPodKeys(svc) { // its pods have the volume of another signer themselves
		return s
	}
	name, podKeys := "", api.WantsPodKeys(svc)
	if s.asks = podKeys; !podKeys {
		name, s.asks = api.Wants(svc)
	}
	if !s.asks {
		return s
	}
	if !s.selects {
		s.tooLarge = api.CheckSize(svc)
	}
	switch {
	case podKeys:
		s.from = origin{podKeys: true}
	case name == api.ConventionalSecretName && len(svc.Spec.Selector) == 0 && s.tooLarge == nil:
		// Refused by api.Parse: every pod in the namespace would get it.
	case api.IsSubdomain(name):
		s.from = origin{secret: name}
	}
	if s.selects && s.from != (origin{}) {
		s.targets = api.TLSTargets(svc)
	}
	return s
}

// selectingServices returns the Services that request an origin and select the pod, the preferred
// first. Only these few of a namespace's Services are compared.
func selectingServices(services []service) []service {
	var selecting []service
	for _, s := range services {
		if s.selects && s.from != (origin{}) {
			selecting = append(selecting, s)
		}
	}
	slices.SortStableFunc(selecting, func(a, b service) int { return preferred(a.Service, b.Service) })
	return selecting
}

// servedBy returns those of the selecting Services whose traffic can reach the pod.
func servedBy(reach api.Reach, selecting []service) []service {
	return slices.DeleteFunc(slices.Clone(selecting), func(s service) bool { return !reach.ServesAny(s.targets) })
}

// requested reports whether a Service requests the origin, and whether another issuer writes it,
// according to the oldest of these Services: the signer refuses the others that differ.
func requested(services []service, from origin) (some, external bool) {
	var oldest *corev1.Service
	for _, s := range services {
		if s.from == from && (oldest == nil || api.OlderFirst(s.Service, oldest) < 0) {
			oldest = s.Service
		}
	}
	return oldest != nil, oldest != nil && api.IsExternal(oldest)
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
	r, err := api.Parse(svc, api.WidestLimits())
	if err != nil {
		return &volume.PodKey{Algorithm: api.DefaultKeyAlgorithm}
	}
	key := &volume.PodKey{Algorithm: r.Params.KeyAlgorithm}
	if r.Asked.Duration > 0 {
		key.Lifetime = min(max(r.Asked.Duration, minPodLifetime), maxPodLifetime)
	}
	return key
}
