package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// What a condition has room for.
const staleSentence = "an older certificate is still served by StatefulSet w1, StatefulSet w10, StatefulSet w11, StatefulSet w12, StatefulSet w13 and 46 more"

// reportStale writes the list of stale workloads as the rotator does.
func (s system) reportStale(t *testing.T, stale ...api.StaleWorkload) map[string]string {
	t.Helper()
	status, err := api.NewServingStatus(stale)
	require.NoError(t, err)
	data, err := status.Data()
	require.NoError(t, err)
	require.NoError(t, s.publish(t.Context(), api.ServingStatusName, data))
	return data
}

// staleOf is a workload that serves an older leaf of Secret SERVICE-tls than its
// condition is about.
func staleOf(namespace, service, leaf, kind, name string, onRotate api.OnRotate, held *api.RestartHold) api.StaleWorkload {
	return api.StaleWorkload{
		Namespace: namespace, Kind: kind, Name: name, Secret: service + "-tls", Leaf: leaf,
		Since: time.Now().UTC().Truncate(time.Second), Pods: 1, OnRotate: onRotate, Held: held,
	}
}

// podOf makes a pod of a StatefulSet that mounts a Secret.
func podOf(t *testing.T, namespace, statefulSet, secret string) {
	t.Helper()
	volume := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}
	yes := true
	makePod(t, namespace, statefulSet+"-0", volume, metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "StatefulSet", Name: statefulSet, UID: types.UID(statefulSet), Controller: &yes,
	})
}

// The rotator reports 51 stale workloads, of which its condition names five: every
// command knows all of them, and says where it does not.
func TestStaleWorkloadsAreKnownBeyondTheSentence(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, stable())
	makeService(t, ns, "old")
	require.NoError(t, setIssued(t.Context(), ns, "old", hash(1)))
	setServing(t, ns, "old", metav1.ConditionFalse, api.ServingStale, staleSentence, time.Now())
	stale := []api.StaleWorkload{staleOf(ns, "old", hash(1), api.PodKind, "bare", api.OnRotateReload, nil)}
	makePod(t, ns, "bare", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "old-tls"}})
	for i := 1; i <= 50; i++ {
		name := fmt.Sprintf("w%d", i)
		podOf(t, ns, name, "old-tls")
		stale = append(stale, staleOf(ns, "old", hash(1), "StatefulSet", name, api.OnRotateReload, nil))
	}
	stale[50].OnRotate = api.OnRotateRestart
	stale[50].Held = &api.RestartHold{Reason: "DisruptionBudget", Message: "PodDisruptionBudget w50 allows no disruption now"}
	podOf(t, ns, "w", "old-tls") // not stale, and its name begins those of others
	data := s.reportStale(t, stale...)

	distrust := []string{"rotate-ca", "-n", s.namespace, "--distrust-now", "--reason", "stolen"}
	status := []string{"status", "--system-namespace", s.namespace, "-n", ns}
	r := cli(t, distrust...)
	assert.Contains(t, r.out, "  workloads that already serve an older certificate, and break until somebody restarts them: 50: "+ns+" Pod/bare, "+ns+" StatefulSet/w1, ")
	assert.Contains(t, r.out, "  workloads that already serve an older certificate, and whose restart is held: 1: "+ns+" StatefulSet/w50\n")
	assert.Contains(t, r.out, "may break until somebody restarts them: 1: "+ns+" StatefulSet/w\n")
	assert.Contains(t, r.out, "  "+ns+" StatefulSet/w50 held: DisruptionBudget: PodDisruptionBudget w50 allows no disruption now\n")

	r = cli(t, append(status, "-o", "json")...)
	var got struct {
		Services []struct {
			Serving struct{ Stale []api.StaleWorkload }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &got))
	assert.Len(t, got.Services[0].Serving.Stale, 51)
	assert.NotContains(t, r.out, "staleUnknown")
	r = cli(t, append(status, "old")...)
	assert.Contains(t, r.out, "\nStatefulSet/w49: 1 pod serves an older certificate, servingcert.dev/on-rotate: reload\n")
	assert.Contains(t, r.out, "\nStatefulSet/w50: 1 pod serves an older certificate, servingcert.dev/on-rotate: restart; held: DisruptionBudget: PodDisruptionBudget w50 allows no disruption now\n")
	r = cli(t, status...)
	assert.Contains(t, r.out, "\n"+ns+" StatefulSet/w50 held: DisruptionBudget: ")

	t.Run("partial", func(t *testing.T) {
		partial := maps.Clone(data)
		partial["stale-count"] = "1200"
		require.NoError(t, s.publish(t.Context(), api.ServingStatusName, partial))
		const doubt = "the list of workloads that serve an older certificate is partial: it has 51 of 1200\n"
		assert.Contains(t, cli(t, distrust...).out, "\n  "+doubt)
		assert.Contains(t, cli(t, status...).out, "\n"+doubt)
	})
	t.Run("about another leaf", func(t *testing.T) {
		s.reportStale(t, staleOf(ns, "old", hash(7), "StatefulSet", "w1", api.OnRotateReload, nil))
		const doubt = "which workloads serve an older certificate is not reported yet\n"
		out := cli(t, distrust...).out
		assert.Contains(t, out, "\n  "+doubt)
		assert.Contains(t, out, "may break until somebody restarts them: 52: ")
		assert.Contains(t, cli(t, status...).out, "\n"+doubt)
	})
	t.Run("broken", func(t *testing.T) {
		require.NoError(t, s.publish(t.Context(), api.ServingStatusName, map[string]string{"stale-count": "many"}))
		assert.Contains(t, cli(t, status...).out, "\nwhich workloads serve an older certificate is unknown: ConfigMap "+s.namespace+"/servingcert-serving-status: stale-count: ")
	})
	t.Run("forbidden", func(t *testing.T) {
		name := "limited-" + ns
		kubeconfig := user(t, name)
		permit(t, s.namespace, name, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}, ResourceNames: []string{api.CAStatusName, api.TrustStatusName}})
		permit(t, ns, name, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}})
		r := cliAs(t, kubeconfig, status...)
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "\nwhich workloads serve an older certificate is unknown: configmaps \"servingcert-serving-status\" is forbidden: ")
	})
	t.Run("missing", func(t *testing.T) {
		require.NoError(t, admin.CoreV1().ConfigMaps(s.namespace).Delete(t.Context(), api.ServingStatusName, metav1.DeleteOptions{}))
		doubt := "which workloads serve an older certificate is unknown: ConfigMap " + s.namespace + "/servingcert-serving-status does not exist\n"
		assert.Contains(t, cli(t, distrust...).out, "\n  "+doubt)
		assert.Contains(t, cli(t, status...).out, "\n"+doubt)
	})
}

// A restart that is held until somebody does something is reported while others are
// under way, and not waited for when nothing else is.
func TestRotationDoesNotWaitForHeldRestarts(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	for i, name := range []string{"web", "old"} {
		makeService(t, ns, name)
		require.NoError(t, setIssued(t.Context(), ns, name, hash(i)))
		setServing(t, ns, name, metav1.ConditionFalse, api.ServingStale, "an older certificate is served", time.Now())
	}
	next := staleOf(ns, "web", hash(0), "Deployment", "next", api.OnRotateRestart, &api.RestartHold{Reason: "Turn", Message: "another rolls out", Passes: true})
	held := staleOf(ns, "old", hash(1), "Deployment", "legacy", api.OnRotateRestart, &api.RestartHold{Reason: "Paused", Message: "it is paused; kubectl rollout resume lets it go on"})
	s.reportStale(t, next, held)
	s.ca(t, stable())
	c := start(t, plane.KubeconfigFile(), "rotate-ca", "-n", s.namespace, "--reason", "held")
	require.Equal(t, "overlap:held", s.asked(t))
	s.ca(t, with(stable(), api.CARotation, "overlap:held", api.CAGeneration, "2", api.CAPhase, api.PhaseRetire, api.CALeaves, "2", api.CAReplaced, "2"))
	const why = " Deployment/legacy held: Paused: it is paused; kubectl rollout resume lets it go on\n"
	c.shown(t, "the pods of 0 of 2 Services serve their new certificate; not yet: "+ns+"/web; "+ns+why)

	setServing(t, ns, "web", metav1.ConditionTrue, api.ServingCurrent, "every pod serves it", time.Now())
	s.reportStale(t, held)
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "served: by every pod of 1 of 2 Services; the last one, "+ns+"/web, since ")
	assert.Contains(t, r.out, "not served: "+ns+"/old: an older certificate is served\n")
	assert.Contains(t, r.out, "not served: "+ns+why)
}
