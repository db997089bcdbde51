package succession

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/servingcert/servingcert/pkg/api"
)

// Mounts miss nothing: neither what is deleted, nor what happens while a watch has ended and
// the API server is away.
func TestMountsMissNothing(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: secretOf(0)}, Type: corev1.SecretTypeTLS}
	bundle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: api.BundleName}}
	admin := fake.NewClientset(secret, bundle)
	away := false
	admin.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return away, nil, errors.New("away")
	})
	m := mounts{admin: admin, namespace: "shop"}
	require.NoError(t, m.open(t.Context()))
	t.Cleanup(m.close)
	label := func(value string) {
		secret.Labels, bundle.Labels = map[string]string{"value": value}, map[string]string{"value": value}
		_, err := admin.CoreV1().Secrets("shop").Update(t.Context(), secret.DeepCopy(), metav1.UpdateOptions{})
		require.NoError(t, err)
		_, err = admin.CoreV1().ConfigMaps("shop").Update(t.Context(), bundle.DeepCopy(), metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	requireLabel := func(value string) {
		t.Helper()
		require.NoError(t, m.update(t.Context()))
		require.Equal(t, value, m.secrets[secret.Name].Labels["value"])
		require.Equal(t, value, m.bundle.Labels["value"])
	}
	label("watched")
	requireLabel("watched")

	for _, ends := range []func(){func() { m.secretChanges.Stop() }, func() { m.bundleChanges.Stop() }} {
		ends()
		away = true
		label("meanwhile")
		require.EqualError(t, m.update(t.Context()), "away")
		require.EqualError(t, m.update(t.Context()), "away", "as long as it is away")
		away = false
		requireLabel("meanwhile")
		label("afterwards")
		requireLabel("afterwards")
	}

	require.NoError(t, admin.CoreV1().Secrets("shop").Delete(t.Context(), secret.Name, metav1.DeleteOptions{}))
	require.NoError(t, admin.CoreV1().ConfigMaps("shop").Delete(t.Context(), bundle.Name, metav1.DeleteOptions{}))
	require.NoError(t, m.update(t.Context()))
	require.Empty(t, m.secrets)
	require.Nil(t, m.bundle)
	tr := &traffic{mounts: m, servers: []*server{{secret: secret.Name, reloads: true}}}
	require.EqualError(t, tr.refresh(t.Context()), "Secret "+secret.Name+": it is not there")
	tr.servers = nil
	require.EqualError(t, tr.refresh(t.Context()), "ConfigMap "+bundle.Name+": it is not there")
}

// ask asks for a rotation, and does not follow it.
func ask(t *scene, reason string) {
	t.Helper()
	patchStatus(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationRotate: reason}}})
}

// The API server is away between two steps, for so long that nobody can lead any
// more. What goes on afterwards does so by itself.
func TestAPIServerAway(test *testing.T) {
	t := fresh(test)
	signer := start(t, "signer", "--ca-soak=4s", "--ca-reissue-window=2s")
	rotator := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now)

	ask(t, "audit")
	require.Eventually(t, func() bool { return len(stored(t).Generations) == 2 }, waitFor, tick)
	prepared := stored(t).Generations[1]
	tr.away.Store(true)
	t.plane.StopAPIServer()
	require.Eventually(t, func() bool { return signer.Restarts() > 0 && rotator.Restarts() > 0 }, waitFor, tick, "nobody leads without an API server")
	require.NoError(t, t.plane.StartAPIServer(t.Context()))
	tr.away.Store(false)

	signedBy(t, "2")
	state := stored(t)
	require.Len(t, state.Generations, 2)
	assert.True(t, state.Generations[1].Root.Equal(prepared.Root), "it is the generation that was made before")
	assert.Nil(t, state.Generations[0].Key)
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && strings.HasPrefix(tr.issuers()[0], "servingcert CA 2 ") }, waitFor, tick)
	tr.requireNoFailure(t)
}
