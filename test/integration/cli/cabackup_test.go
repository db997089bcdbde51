package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestTheBackupOfTheCAIsCompared with the Secret in the cluster. Other checks fail here, as nothing is
// installed.
func TestTheBackupOfTheCAIsCompared(t *testing.T) {
	system := newNamespace(t, "leaving", nil)
	const key = "the key of the CA"
	ca, err := admin.CoreV1().Secrets(system).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: api.CASecretName}, Data: map[string][]byte{"ca.key": []byte(key)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	backup := filepath.Join(t.TempDir(), "backup.yaml")
	ca.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	text, err := yaml.Marshal(ca)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(backup, text, 0o600))
	lines := regexp.MustCompile(`(?m)^(\w+) +SC308 *(?:.*\n +(.+))?`)
	says := func(level, what string) {
		t.Helper()
		r := cli(t, "doctor", "--system-namespace", system, "--ca-backup", backup)
		assert.NotContains(t, r.out+r.err, key)
		finding := lines.FindStringSubmatch(r.out)
		require.NotNil(t, finding, r.err)
		assert.Equal(t, level, finding[1])
		assert.Contains(t, finding[2], what)
	}
	says("ok", "")

	ca.Data["ca.key"] = []byte("the next key")
	_, err = admin.CoreV1().Secrets(system).Update(t.Context(), ca, metav1.UpdateOptions{})
	require.NoError(t, err)
	says("error", "the CA was changed since")

	require.NoError(t, admin.CoreV1().Secrets(system).Delete(t.Context(), ca.Name, metav1.DeleteOptions{}))
	says("error", "does not exist, so that nothing can be compared with it")
}
