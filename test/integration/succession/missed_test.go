package succession

import (
	"errors"
	"testing"

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
