package serving

import (
	"maps"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Keyless returns, by UID, the Services that ask for a certificate and whose TLS ports lead to pods that mount none
// of their keys, with the names of the pods' workloads. all are the pods of the namespace. Such pods cannot serve the
// certificate: they are older than the request, or were not injected. It does not count pods that run to
// completion, and static pods, whose files are unknown.
func Keyless(services []*corev1.Service, all []*pods.Facts) map[types.UID]string {
	templates := map[unique.Handle[pods.Template]]bool{}
	for _, pod := range all {
		if pod.DeletionTimestamp == nil {
			templates[pod.Template] = true
		}
	}
	names := map[types.UID]map[string]bool{}
	for handle := range templates {
		t := handle.Value()
		if t.OneShot || t.Mirror() {
			continue
		}
		b, pod := newBuilder(t), t.Pod()
		for _, svc := range services {
			if !api.Asks(svc) || !api.Selects(svc, pod) || hasKeyOf(t, svc) || !b.isEndpoint(svc) {
				continue
			}
			if names[svc.UID] == nil {
				names[svc.UID] = map[string]bool{}
			}
			names[svc.UID][t.Workload.String()] = true
		}
	}
	found := make(map[types.UID]string, len(names))
	for uid, workloads := range names {
		found[uid] = api.Listed(slices.Sorted(maps.Keys(workloads)), maxNamed)
	}
	return found
}

// isEndpoint reports whether a TLS port of the Service leads to the pods that it selects: a port that has a name
// leads only to those that declare it.
func (b *builder) isEndpoint(svc *corev1.Service) bool {
	return slices.ContainsFunc(api.Needs(svc), func(n api.Need) bool {
		return slices.ContainsFunc(n.Targets, func(t api.ProbeTarget) bool { return len(b.find(t.Target)) > 0 })
	})
}

// hasKeyOf reports whether the pods have a key of their own, or mount one of the Service's Secrets.
func hasKeyOf(t pods.Template, svc *corev1.Service) bool {
	if t.HasPodKey() {
		return true
	}
	secret, ok := state.PartIn(svc)
	return ok && t.Mounts(pods.SecretKey(secret)) ||
		slices.ContainsFunc(state.ReadyOf(svc).Kept, func(kept string) bool { return t.Mounts(pods.SecretKey(kept)) })
}

// unlessKeyless returns the statement, or that the certificate is not served if all that was seen serves it, but
// pods of the workloads, as [Keyless] names them, cannot.
func (s statement) unlessKeyless(workloads string) statement {
	if s.rule.state == stateCurrent && workloads != "" {
		s.keyless, s.rule = workloads, keylessRule
	}
	return s
}

// keylessRule replaces the rule for stateCurrent.
var keylessRule = servingRule{
	stateKeyless, nil, metav1.ConditionFalse, api.ServingNotMounted, "the certificate in Secret %q is not served by pods that do not mount it: ",
	"pods without a key of their own serve no certificate: ", func(s statement) string {
		return s.keyless + "; restart them, or read the reason in their annotation " + api.AnnotationStatus
	},
}

// stateKeyless is that of pods without a key, which are not counted.
const stateKeyless State = "keyless"
