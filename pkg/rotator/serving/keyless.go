package serving

import (
	"maps"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Keyless returns, by UID, the Services that ask for a certificate and select pods that mount none of their
// keys, with the names of the pods' workloads. all are the pods of the namespace. Such pods cannot serve the
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
		if t.Left == pods.ReasonFinished || t.OneShot || t.Mirror() {
			continue
		}
		var pod *corev1.Pod
		for _, svc := range services {
			if !api.Asks(svc) || hasKeyOf(t, svc) {
				continue
			}
			if pod == nil {
				pod = &corev1.Pod{}
				pod.Labels = t.LabelSet()
			}
			if !api.Selects(svc, pod) {
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

// hasKeyOf reports whether the pods have a key of their own, or mount one of the Service's Secrets.
func hasKeyOf(t pods.Template, svc *corev1.Service) bool {
	if t.HasPodKey() {
		return true
	}
	secret, ok := state.PartIn(svc)
	return ok && t.Mounts(pods.SecretKey(secret)) ||
		slices.ContainsFunc(state.ReadyOf(svc).Kept, func(kept string) bool { return t.Mounts(pods.SecretKey(kept)) })
}
