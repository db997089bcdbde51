package choose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// asker is a Service and the origin that it requests.
type asker struct {
	*corev1.Service
	from origin
}

// askingServices returns the Services that request a certificate, with the origin they request.
func askingServices(services []*corev1.Service) []asker {
	asking := make([]asker, 0, len(services))
	for _, s := range services {
		from := originOf(s)
		if from == (origin{}) {
			continue
		}
		if from.secret == api.ConventionalSecretName && len(s.Spec.Selector) == 0 && api.CheckSize(s) == nil {
			continue // refused by api.Parse: every pod in the namespace would get it
		}
		asking = append(asking, asker{s, from})
	}
	return asking
}

// selectingServices returns the Services that select the pod, the preferred first. Only these
// few of a namespace's Services are compared.
func selectingServices(asking []asker, pod *corev1.Pod) []asker {
	var selecting []asker
	for _, s := range asking {
		if api.Selects(s.Service, pod) {
			selecting = append(selecting, s)
		}
	}
	slices.SortStableFunc(selecting, func(a, b asker) int { return preferred(a.Service, b.Service) })
	return selecting
}

func isRequested(asking []asker, secret string) bool {
	some, _ := requested(asking, secret)
	return some
}

// requested reports whether a Service requests the Secret, and whether another issuer writes it,
// according to the oldest of these Services: the signer refuses the others that differ.
func requested(asking []asker, secret string) (some, external bool) {
	var oldest *corev1.Service
	for _, s := range asking {
		if s.from.secret == secret && (oldest == nil || api.OlderFirst(s.Service, oldest) < 0) {
			oldest = s.Service
		}
	}
	return oldest != nil, oldest != nil && api.IsExternal(oldest)
}

// servedBy returns those of the selecting Services whose traffic can reach the pod.
func servedBy(pod *corev1.Pod, selecting []asker) []asker {
	if len(selecting) == 0 {
		return nil
	}
	reach := api.ReachOf(pod)
	return slices.DeleteFunc(slices.Clone(selecting), func(s asker) bool { return !reach.Serves(s.Service) })
}
