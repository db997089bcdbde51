package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestUninstallCheck: without a backup that is as the CA is now, the exit code is 1; the
// rest is shown anyhow, and nothing is deleted.
func TestUninstallCheck(t *testing.T) {
	system := newNamespace(t, "leaving", nil)
	shop := newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
	makeService(t, shop, "web")
	_, err := admin.CoreV1().ConfigMaps(shop).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.BundleName}}, metav1.CreateOptions{})
	require.NoError(t, err)
	check := func(args ...string) result {
		return cli(t, append([]string{"uninstall", "--check", "--system-namespace", system}, args...)...)
	}
	r := check()
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "Secret "+system+"/servingcert-ca does not exist: there is nothing to keep")

	const key = "the key of the CA"
	ca, err := admin.CoreV1().Secrets(system).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: api.CASecretName}, Data: map[string][]byte{"ca.key": []byte(key)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	r = check()
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, "no backup of the CA")
	assert.Contains(t, r.out, "kubectl delete namespace "+system)
	assert.Contains(t, r.out, "ConfigMap servingcert-ca.crt in ")

	backup := filepath.Join(t.TempDir(), "backup.yaml")
	ca.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	text, err := yaml.Marshal(ca)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(backup, text, 0o600))
	r = check("--backup", backup)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "is Secret "+system+"/servingcert-ca as it is now")

	ca.Data["ca.key"] = []byte("the next key")
	_, err = admin.CoreV1().Secrets(system).Update(t.Context(), ca, metav1.UpdateOptions{})
	require.NoError(t, err)
	r = check("--backup", backup)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, "the CA was changed since")
	assert.NotContains(t, r.out+r.err, key)
	_, err = admin.CoreV1().Secrets(system).Get(t.Context(), api.CASecretName, metav1.GetOptions{})
	assert.NoError(t, err)
}
