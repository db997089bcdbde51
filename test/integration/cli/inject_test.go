package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestInjectLive: the preview knows of the cluster what the webhook knows: settings of the
// namespace and of the Service, and the operator's table of programs.
func TestInjectLive(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
	makeService(t, ns, "web")
	mode := func(mode string) []byte {
		return []byte(`{"metadata":{"annotations":{"servingcert.dev/mode":"` + mode + `"}}}`)
	}
	_, err := admin.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, mode("args"), metav1.PatchOptions{})
	require.NoError(t, err)
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(manifest, []byte(`apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: web, image: example.com/acme-web, args: [serve]}]}
`), 0o600))
	inject := []string{"inject", "--live", "--system-namespace", s.namespace, "-n", ns, "-f", manifest}
	previewed := func(want string) result {
		t.Helper()
		r := cli(t, inject...)
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, want)
		return r
	}
	assert.NotContains(t, previewed("--tls-cert-file=").err, api.ProgramsName, "there is no table to speak of")

	const table = "- program: acme\n  images: [acme-web]\n  flags: [\"--acme-cert={cert}\"]\n  reload: itself\n"
	require.NoError(t, s.publish(t.Context(), api.ProgramsName, map[string]string{api.ProgramsKey: table}))
	assert.NotContains(t, previewed("--acme-cert=/etc/servingcert/tls.crt").out, "--tls-cert-file")

	t.Run("a file instead of the cluster's table", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "programs.yaml")
		require.NoError(t, os.WriteFile(file, []byte("- program: acme\n  images: [acme-web]\n  flags: [\"--other-cert={cert}\"]\n  reload: itself\n"), 0o600))
		r := cli(t, append(inject, "--programs", file)...)
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "--other-cert=/etc/servingcert/tls.crt")
	})
	t.Run("forbidden", func(t *testing.T) {
		name := "developer-" + ns
		kubeconfig := user(t, name)
		permit(t, ns, name, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces", "services"}, Verbs: []string{"get", "list"}})
		r := cliAs(t, kubeconfig, inject...)
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "--tls-cert-file=")
		assert.Contains(t, r.err, "Warning: ConfigMap "+s.namespace+"/servingcert-programs cannot be read by this user: only the built-in programs are known here\n")
	})
	t.Run("refused by the webhook", func(t *testing.T) {
		require.NoError(t, s.publish(t.Context(), api.ProgramsName, map[string]string{api.ProgramsKey: table + "  port: 1\n  tls: 2\n"}))
		r := previewed("--tls-cert-file=")
		assert.Contains(t, r.err, "Warning: ConfigMap "+s.namespace+"/servingcert-programs is invalid, and the webhook uses the last valid one: only the built-in programs are known here: "+
			"programs.yaml: line 5: field port is not a field of a program; line 6: field tls is not a field of a program\n")
	})
	t.Run("settings of the namespace and of the Service", func(t *testing.T) {
		parts := func() string { return cli(t, append(inject, "-o", "report")...).out }
		assert.Regexp(t, `Pod/web +web +web-tls +files,env,flags `, parts())
		_, err := admin.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, mode("mount"), metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Regexp(t, `Pod/web +web +web-tls +files `, parts())
		_, err = admin.CoreV1().Services(ns).Patch(t.Context(), "web", types.MergePatchType, mode("env"), metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Regexp(t, `Pod/web +web +web-tls +files,env `, parts())
	})
}
