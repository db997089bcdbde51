package oldclients

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

var (
	trusted = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	since   = trusted.Add(api.KubeletUpdatesByName)
)

func root(n int) string { return strings.Repeat(fmt.Sprintf("%02x", n), 32) }

// succession is a CA whose second generation is trusted everywhere.
func succession() api.CAStatus {
	return api.CAStatus{Phase: api.PhaseStable, Generations: []api.CAGenerationRecord{
		{Number: 1, Root: root(1), SignsSince: trusted.Add(-9000 * time.Hour)},
		{Number: 2, Root: root(2), TrustedAt: trusted, SignsSince: trusted.Add(7 * time.Minute)},
	}}
}

// fromConfigMap and fromTrustBundle are volumes with the CA bundle.
func fromConfigMap() corev1.Volume {
	v := corev1.Volume{Name: "trust"}
	v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: api.BundleName}}
	return v
}

func fromTrustBundle() corev1.Volume {
	signer := api.SignerName
	v := corev1.Volume{Name: "trust"}
	v.Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &signer, Path: "ca.crt"}}}}
	return v
}

// pod is one of Deployment web, with the volume in its only container, which was started at the
// time.
func pod(started time.Time, change ...func(*corev1.Pod)) *pods.Facts {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1-a", UID: "u", Labels: map[string]string{"pod-template-hash": "1"}, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "r", Controller: &yes}},
	}}
	p.Spec.Volumes = []corev1.Volume{fromConfigMap()}
	p.Spec.Containers = []corev1.Container{{Name: "web", VolumeMounts: []corev1.VolumeMount{{Name: "trust", MountPath: "/trust"}}}, {Name: "other"}}
	p.Status.Phase = corev1.PodRunning
	running := func(name string, at time.Time) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{running("web", started), running("other", trusted.Add(-time.Hour))}
	for _, c := range change {
		c(p)
	}
	return pods.FactsOf(p)
}

func annotated(value api.OnRotate) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[api.AnnotationOnRotate] = string(value) }
}

func decide(now time.Time, ca api.CAStatus, all ...*pods.Facts) Decision {
	return Decide(Situation{Now: now, CA: ca, Pods: slices.Values(all)})
}

func TestWhoCounts(t *testing.T) {
	withKey := func(p *corev1.Pod) {
		v := corev1.Volume{Name: "pair"}
		v.Secret = &corev1.SecretVolumeSource{SecretName: "web-tls"}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	for name, tc := range map[string]struct {
		pod     *pods.Facts
		counted bool
		restart bool
	}{
		"started before":                       {pod(since.Add(-time.Second)), true, false},
		"started since":                        {pod(since), false, false},
		"asks for a restart":                   {pod(trusted, annotated(api.OnRotateRestart)), true, true},
		"does not want one":                    {pod(trusted, annotated(api.OnRotateNone)), true, false},
		"reads its files again":                {pod(trusted, annotated(api.OnRotateReload)), false, false},
		"by ClusterTrustBundle":                {pod(trusted, func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{fromTrustBundle()} }), true, false},
		"without the bundle":                   {pod(trusted, func(p *corev1.Pod) { p.Spec.Volumes[0].ConfigMap.Name = "other" }), false, false},
		"only another container mounts it":     {pod(since, func(p *corev1.Pod) { p.Spec.Containers[1].VolumeMounts = p.Spec.Containers[0].VolumeMounts }), true, false},
		"does not run":                         {pod(trusted, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }), false, false},
		"is being deleted":                     {pod(trusted, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: since} }), false, false},
		"a server, too, which is not replaced": {pod(trusted, annotated(api.OnRotateRestart), withKey), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(since, succession(), tc.pod)
			require.Len(t, d.Clients, 1)
			of := d.Clients[0]
			assert.Equal(t, 2, of.Generation)
			assert.Equal(t, root(2), of.Root)
			assert.Equal(t, since, of.Since)
			if tc.counted {
				assert.Equal(t, 1, of.Pods)
				assert.Equal(t, []string{"shop/Deployment web"}, of.First)
			} else {
				assert.Zero(t, of.Pods)
			}
			assert.Len(t, d.Stale["shop"], map[bool]int{true: 1}[tc.restart])
		})
	}

	ca := succession()
	ca.Phase = api.PhaseReissue
	assert.Empty(t, decide(since, ca, pod(trusted, annotated(api.OnRotateRestart), withKey)).Stale, "a server is restarted for its new certificate, once")
	assert.NotEmpty(t, decide(since, ca, pod(trusted, annotated(api.OnRotateRestart))).Stale, "a client need not wait")
}

func TestWhichGenerations(t *testing.T) {
	d := decide(since.Add(-time.Second), succession(), pod(trusted))
	assert.Empty(t, d.Clients, "kubelets may not have updated all volumes yet")
	assert.Equal(t, time.Second, d.After)

	change := func(change func(*api.CAGenerationRecord)) api.OldClients {
		ca := succession()
		change(&ca.Generations[1])
		return decide(since.Add(time.Hour), ca, pod(trusted)).Clients
	}
	assert.Empty(t, change(func(g *api.CAGenerationRecord) { g.TrustedAt, g.SignsSince = time.Time{}, time.Time{} }), "its root is not everywhere")
	assert.Empty(t, change(func(g *api.CAGenerationRecord) { g.Retired = true }))
	assert.Empty(t, change(func(g *api.CAGenerationRecord) { g.Root = root(1) }), "whoever has the one before has its root")
	assert.Len(t, change(func(g *api.CAGenerationRecord) { g.TrustedAt = time.Time{} }), 1, "it signed without waiting")

	third := succession()
	third.Generations = append(third.Generations, api.CAGenerationRecord{Number: 3, Root: root(3), TrustedAt: trusted.Add(time.Hour)})
	clients := decide(since.Add(time.Hour), third, pod(trusted), pod(since)).Clients
	require.Len(t, clients, 2)
	assert.Equal(t, []int{1, 2}, []int{clients[0].Pods, clients[1].Pods}, "those that may lack the second, and the third root")
	assert.Equal(t, 1, clients[1].Workloads)
}

// TestNamesAreBounded: of many workloads a few are named, always the same.
// TestAShorterSoak: who soaks for less long than kubelets can take says how long they take. A server
// that was restarted for its certificate by the new CA has the root by then.
func TestAShorterSoak(t *testing.T) {
	ca := succession()
	signs := trusted.Add(30 * time.Second)
	ca.Generations[1].SignsSince = signs
	clients := decide(signs, ca, pod(signs.Add(-time.Second)), pod(signs)).Clients
	require.Len(t, clients, 1)
	assert.Equal(t, signs, clients[0].Since)
	assert.Equal(t, 1, clients[0].Pods)
}

func TestNamesAreBounded(t *testing.T) {
	var all []*pods.Facts
	for i := range 1000 {
		all = append(all, pod(trusted, func(p *corev1.Pod) { p.Namespace, p.Name, p.OwnerReferences = fmt.Sprintf("ns-%03d", i), "bare", nil }))
	}
	of := decide(since, succession(), all...).Clients[0]
	assert.Equal(t, 1000, of.Pods)
	assert.Equal(t, 1000, of.Workloads)
	require.Len(t, of.First, api.MaxOldClientsNamed)
	assert.Equal(t, "ns-000/Pod bare", of.First[0])
	assert.Equal(t, "ns-009/Pod bare", of.First[9])

	status := api.ServingStatus{Clients: api.OldClients{of}}
	data, err := status.Data()
	require.NoError(t, err)
	assert.Equal(t, status.Clients, api.ParseOldClients(data), "a reader sees the same")
}
