package rotator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestFactsAreShared(t *testing.T) {
	ofWorkload := func(name string, change func(*corev1.Pod)) *PodFacts {
		return FactsOf(webPod(func(p *corev1.Pod) {
			p.Name, p.UID, p.OwnerReferences = name, "u", []metav1.OwnerReference{controlledBy("apps/v1", "StatefulSet", "web")}
			p.ResourceVersion = name
			if change != nil {
				change(p)
			}
		}))
	}
	a, b := ofWorkload("a", nil), ofWorkload("b", func(p *corev1.Pod) {
		p.Annotations["prometheus.io/scrape"], p.Status.PodIP, p.Spec.NodeName = "true", "10.0.0.7", "node-7"
		p.Status.Phase = corev1.PodPending
	})
	assert.Equal(t, a.Template, b.Template, "what is nobody's concern makes no difference")
	assert.Equal(t, "a b", a.Name+" "+b.Name)
	assert.Equal(t, "a b", a.ResourceVersion+" "+b.ResourceVersion)
	assert.Empty(t, a.UID, "of use for bare pods only")
	assert.Equal(t, "uid-of-web", string(FactsOf(webPod(nil)).UID))
	for name, change := range map[string]func(*corev1.Pod){
		"label":   label("x", "y"),
		"secret":  annotation(api.AnnotationSecretName, "mine"),
		"mistake": annotation(api.AnnotationMode, "flags"),
		"status":  annotation(api.AnnotationStatus, `{"secret":"web-tls","reason":"x"}`),
		"volume":  secretVolume("web-tls"),
		"ended":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"owner":   func(p *corev1.Pod) { p.OwnerReferences = nil },
		"place":   func(p *corev1.Pod) { p.Namespace = "other" },
		"port":    withPort,
	} {
		assert.NotEqual(t, a.Template, ofWorkload("a", change).Template, name)
	}
}

func TestFactsAreAnObject(t *testing.T) {
	now := metav1.Now()
	f := FactsOf(webPod(func(p *corev1.Pod) { p.DeletionTimestamp = &now }))
	got, ok := f.DeepCopyObject().(*PodFacts)
	require.True(t, ok)
	assert.Equal(t, f, got)
	assert.NotSame(t, f.DeletionTimestamp, got.DeletionTimestamp)
}

func TestLabelsSurvive(t *testing.T) {
	const name = `[A-Za-z0-9]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9])?`
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOf(rapid.StringMatching(`([a-z]{1,9}\.[a-z]{1,9}/)?`+name), rapid.StringMatching(`(`+name+`)?`)).Draw(t, "labels")
		encoded := encodeLabels(labels)
		got := decodeLabels(encoded)
		require.Len(t, got, len(labels))
		for k, v := range labels {
			require.Equal(t, v, got[k])
		}
		require.Equal(t, encoded, encodeLabels(got))
	})
}

func TestWorkloads(t *testing.T) {
	const restart = "restart it: kubectl rollout restart "
	const deletePods = "delete its pods, one after the other, and it makes new ones: kubectl delete pod web-x -n shop"
	tests := []struct {
		name   string
		hash   string
		owners []metav1.OwnerReference
		want   Workload
		advice string
	}{
		{"bare", "", nil, Workload{}, "recreate it"},
		{"owned and not controlled", "", []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}}, Workload{}, "recreate it"},
		{"Deployment", "5d9c", []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", "web-5d9c")}, Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, restart + "deployment/web -n shop"},
		{"ReplicaSet by hand", "", []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", "web")}, Workload{"apps/v1", "ReplicaSet", "web", "u"}, deletePods},
		{"ReplicaSet with a name of its own", "5d9c", []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", "web5d9c")}, Workload{"apps/v1", "ReplicaSet", "web5d9c", "u"}, deletePods},
		{"hash alone", "5d9c", []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", "-5d9c")}, Workload{"apps/v1", "ReplicaSet", "-5d9c", "u"}, deletePods},
		{"StatefulSet", "", []metav1.OwnerReference{controlledBy("apps/v1", "StatefulSet", "db")}, Workload{"apps/v1", "StatefulSet", "db", "u"}, restart + "statefulset/db -n shop"},
		{"DaemonSet", "", []metav1.OwnerReference{controlledBy("apps/v1", "DaemonSet", "agent")}, Workload{"apps/v1", "DaemonSet", "agent", "u"}, restart + "daemonset/agent -n shop"},
		{"another's StatefulSet", "", []metav1.OwnerReference{controlledBy("apps.example.com/v1", "StatefulSet", "db")}, Workload{"apps.example.com/v1", "StatefulSet", "db", "u"}, deletePods},
		{"Job", "", []metav1.OwnerReference{controlledBy("batch/v1", "Job", "run")}, Workload{"batch/v1", "Job", "run", "u"}, "delete it and create it again (a CronJob's next Job has it by itself)"},
		{"the controller of several owners", "", []metav1.OwnerReference{{Kind: "X"}, controlledBy("apps/v1", "DaemonSet", "agent")}, Workload{"apps/v1", "DaemonSet", "agent", "u"}, restart + "daemonset/agent -n shop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := webPod(func(p *corev1.Pod) { p.OwnerReferences = tt.owners })
			if tt.hash != "" {
				pod.Labels["pod-template-hash"] = tt.hash
			}
			got := FactsOf(pod).Template.Value().Workload
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.advice, got.advice("shop", "web-x"))
		})
	}
}

func controlledBy(apiVersion, kind, name string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: "u", Controller: &yes}
}

func TestNotes(t *testing.T) {
	web := missKey{Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, "web-tls"}
	tests := []struct {
		miss miss
		want string
	}{
		{
			miss{missKey: web, service: "web", pods: 3, pod: "web-a"},
			"3 pods (web-a and others) were not injected with Secret web-tls, as Service web asks: created before that or before the namespace's label, or while the webhook was away; restart it: kubectl rollout restart deployment/web -n shop",
		},
		{
			miss{missKey: missKey{secret: "mine"}, pods: 1, pod: "p"},
			"pod p was not injected with Secret mine, as its annotation asks: created before that or before the namespace's label, or while the webhook was away; recreate it",
		},
		{
			miss{missKey: web, service: "web", pods: 1, pod: "web-a", mistake: `servingcert.dev/mode: "flags": must be "args", "env" or "mount"`},
			`pod web-a was not injected with Secret web-tls, as Service web asks: created before that or before the namespace's label, or while the webhook was away; correct servingcert.dev/mode: "flags": must be "args", "env" or "mount"; then restart it: kubectl rollout restart deployment/web -n shop`,
		},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.miss.note("shop"))
	}
	name := strings.Repeat("n", 63)
	long := miss{missKey: missKey{Workload{"apps/v1", "StatefulSet", name, "u"}, strings.Repeat("s", 150)}, service: name, pods: 1000, pod: strings.Repeat("p", 100), mistake: strings.Repeat("é", 2000)}
	assert.Less(t, len([]rune(long.note(name))), 1024, "the API server takes no longer note")
}
