package serving

import (
	"cmp"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Keyless returns, by UID, the Services that ask for a certificate and whose TLS ports lead to pods that mount none
// of their keys, with the names of the pods' workloads. all returns the pods of the namespace. Such pods cannot serve the
// certificate: they are older than the request, or were not injected. It does not count pods that run to
// completion, and static pods, whose files are unknown. Of the Services of a pod that share a Secret, it considers as many
// as endpointOf, whatever others there are.
func Keyless(services []*corev1.Service, all func() []*pods.Facts) map[types.UID]string {
	return keyless(services, all, true)
}

// OnlyKept is Keyless for pods of Services with a list of clients that mount a Secret which the Service keeps from before.
// They are not dialled for the Service. What changes of them is seen in the next decision, at most an interval later.
func OnlyKept(services []*corev1.Service, all func() []*pods.Facts) map[types.UID]string {
	keep := func(svc *corev1.Service) bool {
		return api.Guards(svc) && !api.WantsPodKeys(svc) && len(state.ReadyOf(svc).Kept) > 0
	}
	return keyless(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return !keep(svc) }), all, false)
}

// keyless returns what Keyless does. kept: a Secret that the Service keeps from before is one of its keys.
func keyless(services []*corev1.Service, all func() []*pods.Facts, kept bool) map[types.UID]string {
	var asking []askingService
	for _, svc := range services {
		if api.Asks(svc) {
			a := askingServiceOf(svc)
			a.keys = slices.DeleteFunc(a.keys, func(key pods.Key) bool { return !kept && key != a.key })
			asking = append(asking, a)
		}
	}
	if len(asking) == 0 {
		return nil
	}
	slices.SortFunc(asking, func(a, b askingService) int { return api.OlderFirst(a.Service, b.Service) })
	found := map[types.UID]*workloads{}
	for _, t := range templatesOf(all()) {
		pod, targets := t.Pod(), map[pods.Key]int{}
		var b *builder
		for _, svc := range asking {
			if !api.Selects(svc.Service, pod) || targets[svc.key] >= maxTargets {
				continue
			}
			if b == nil {
				b = newBuilder(t.Template)
			}
			targets[svc.key] += len(svc.targets)
			if t.HasPodKey() && !api.HasOtherPodKeys(svc.Service) || slices.ContainsFunc(svc.keys, t.Mounts) || !slices.ContainsFunc(svc.targets, func(to intstr.IntOrString) bool { return len(b.find(to)) > 0 }) {
				continue
			}
			if found[svc.UID] == nil {
				found[svc.UID] = &workloads{}
			}
			found[svc.UID].add(t.workload)
		}
	}
	texts := make(map[types.UID]string, len(found))
	for uid, w := range found {
		texts[uid] = api.ListedOf(w.names, w.all)
	}
	return texts
}

// askingService is a Service that asks for a certificate, with the key that it asks for, all its keys, and the targetPorts of
// its TLS ports. A targetPort that has a name leads only to pods that declare it.
type askingService struct {
	*corev1.Service
	key     pods.Key
	keys    []pods.Key
	targets []intstr.IntOrString
}

func askingServiceOf(svc *corev1.Service) askingService {
	a := askingService{Service: svc, key: pods.PodKey}
	if api.HasOtherPodKeys(svc) {
		a.keys = append(a.keys, pods.OtherPodKey)
	}
	if secret, ok := state.PartIn(svc); ok {
		a.key = pods.SecretKey(secret)
		a.keys = append(a.keys, a.key)
	}
	for _, kept := range state.ReadyOf(svc).Kept {
		a.keys = append(a.keys, pods.SecretKey(kept))
	}
	for _, n := range api.Needs(svc) {
		for _, t := range n.Targets {
			a.targets = append(a.targets, t.Target)
		}
	}
	return a
}

// namedTemplate is a template of pods, with the name of their workload.
type namedTemplate struct {
	pods.Template
	workload string
}

// templatesOf returns the templates of pods that may be Keyless, by workload.
func templatesOf(all []*pods.Facts) (templates []namedTemplate) {
	known := map[unique.Handle[pods.Template]]bool{}
	for _, pod := range all {
		if known[pod.Template] || pod.DeletionTimestamp != nil {
			continue
		}
		known[pod.Template] = true
		if t := pod.Template.Value(); !t.OneShot && !t.Mirror() {
			templates = append(templates, namedTemplate{t, t.Workload.String()})
		}
	}
	slices.SortFunc(templates, func(a, b namedTemplate) int { return cmp.Compare(a.workload, b.workload) })
	return templates
}

// workloads are the first workloads by name, and the number of all.
type workloads struct {
	names []string
	last  string
	all   int
}

// add adds a workload, which is not before the last one.
func (w *workloads) add(name string) {
	if w.all > 0 && name == w.last {
		return
	}
	w.last, w.all = name, w.all+1
	if len(w.names) < maxNamed {
		w.names = append(w.names, name)
	}
}

// unlessKeyless returns the statement, or that the certificate is not served if all that was seen serves it, but
// pods of the workloads, as [Keyless] names them, cannot.
func (s statement) unlessKeyless(workloads string) statement {
	if s.rule.state == stateCurrent && workloads != "" {
		s.keyless, s.rule = workloads, keylessRule
	}
	return s
}

// keylessRule replaces the rule for stateCurrent. The pods without a key are in no state.
var keylessRule = servingRule{
	"", nil, metav1.ConditionFalse, api.ServingNotMounted, "the certificate in Secret %q is not served by pods that do not mount it: ",
	"pods without a key of their own serve no certificate: ", func(s statement) string {
		return s.keyless + "; restart them, or read the reason in their annotation " + api.AnnotationStatus
	},
}
