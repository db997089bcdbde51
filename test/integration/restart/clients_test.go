package restart

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	oldclients "github.com/servingcert/servingcert/pkg/rotator/oldclients/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// client makes a Deployment of one pod that mounts the CA bundle and serves nothing.
func (p place) client(name string, onRotate api.OnRotate) *appsv1.Deployment {
	p.t.Helper()
	one := int32(1)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector(name), Template: template(name, onRotate)}}
	if onRotate == "" {
		d.Spec.Template.Annotations = nil
	}
	d.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: api.BundleName}}}
	p.create(d)
	p.ready(name, 1)
	return d
}

// TestClientsAreCountedAndRestarted: pods that were started before a new root was everywhere are
// counted, and those that ask for it are restarted once.
func TestClientsAreCountedAndRestarted(t *testing.T) {
	p := newPlace(t)
	asks, keeps, reloads := p.client("asks", api.OnRotateRestart), p.client("keeps", ""), p.client("reloads", api.OnRotateReload)

	everywhere := time.Now().Add(4 * time.Second).Truncate(time.Second)
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName}}
	publish := func(generations ...api.CAGenerationRecord) {
		change(t, published, func() {
			data := api.CAStatus{Generation: 1, Phase: api.PhaseStable, Generations: generations}.Data()
			data[api.BundleKey] = string(node.ca.bundle())
			published.Data = data
		})
	}
	t.Cleanup(func() { publish() })
	publish(
		api.CAGenerationRecord{Number: 1, Origin: api.OriginOwn, Root: strings.Repeat("1", 64), SignsSince: everywhere.Add(-time.Hour)},
		api.CAGenerationRecord{Number: 2, Origin: api.OriginOwn, Root: strings.Repeat("2", 64), TrustedAt: everywhere.Add(-api.KubeletUpdatesByName)},
	)
	startRotator(t, nil)

	counted := func() (of api.OldClientsOf) {
		var cm corev1.ConfigMap
		if admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: api.ServingStatusName}, &cm) == nil {
			of, _ = api.ParseOldClients(cm.Data).Of(2, strings.Repeat("2", 64))
		}
		return of
	}
	require.Eventually(t, func() bool { return restartedAt(t, asks) != "" }, harness.Soon, 50*time.Millisecond, "it asks for a restart")
	at, err := time.Parse(time.RFC3339, restartedAt(t, asks))
	require.NoError(t, err)
	assert.False(t, at.Before(everywhere), "not before new pods are known to read the root")
	p.ready("asks", 1)
	require.Eventually(t, func() bool { return counted().Pods == 1 }, harness.Soon, 50*time.Millisecond, "the new pod has the root")
	assert.Equal(t, []string{p.name + "/Deployment keeps"}, counted().First, "who says that it reloads is not counted")
	assert.Empty(t, restartedAt(t, keeps))
	assert.Empty(t, restartedAt(t, reloads))
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(asks), asks))
	assert.EqualValues(t, 2, asks.Generation, "it was restarted once")

	harness.Eventually(t, func() error {
		var events eventsv1.EventList
		if err := admin.List(t.Context(), &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == oldclients.EventOldClients && e.Regarding.Name == api.CAStatusName && strings.Contains(e.Note, p.name+"/Deployment keeps") {
				return nil
			}
		}
		return assert.AnError
	})
}
