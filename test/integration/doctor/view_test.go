package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// What Kubernetes aggregates to its ClusterRoles view and edit; no controller does so here.
const (
	toView = "system:aggregate-to-view"
	toEdit = "system:aggregate-to-edit"
)

// lookers are users with the roles that docs/operations.md names, and with nothing else.
func lookers(t *testing.T) {
	harness.NewService(t, admin, "shop", "web")
	t.Run("the cluster", theCluster)
	t.Run("a namespace", aNamespace)
}

// theCluster: with "view" and servingcert-view doctor can make all its checks but to create a pod,
// and with nothing less.
func theCluster(t *testing.T) {
	role := &rbacv1.ClusterRole{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "servingcert-view"}, role))
	identities := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.ClientCAStatusName}, Data: api.CAStatus{Generation: 1}.Data()}
	require.NoError(t, admin.Create(t.Context(), identities))
	defer func() { require.NoError(t, admin.Delete(t.Context(), identities)) }()
	bundles := harness.Serves(t, plane.AdminConfig(), controlplane.ClusterTrustBundles)
	all := user(t, "looker", "", toView, role.Name)
	harness.Eventually(t, func() error {
		if r := runAs(t, all); strings.Contains(r.out, "SC001\n") || r.code == 2 {
			return fmt.Errorf("it could not read all: %s%s", r.out, r.err)
		}
		return nil
	})
	endpoints := &discoveryv1.EndpointSlice{ // there is no node, so no pod of the webhook is ready
		ObjectMeta:  metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: "webhook", Labels: map[string]string{discoveryv1.LabelServiceName: "servingcert-webhook"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
	require.NoError(t, admin.Create(t.Context(), endpoints))
	r := pluginAs(t, all, "status", "-A")
	require.NoError(t, admin.Delete(t.Context(), endpoints))
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "generation 1 signs")
	unread := map[string]string{ // what doctor names without a rule, by the rule's first resource
		"leases": "Leases in ", "mutatingwebhookconfigurations": "MutatingWebhookConfiguration servingcert",
		"clustertrustbundles": "ClusterTrustBundle " + api.ClientBundleName + "\n        could not be read",
	}
	for i := range role.Rules {
		if slices.Contains([]string{"configmaps", "endpointslices"}, role.Rules[i].Resources[0]) { // "view" has them too; it is for who has a namespace
			continue
		}
		if role.Rules[i].Resources[0] == "clustertrustbundles" && !bundles {
			continue
		}
		less := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("less-", i)}, Rules: slices.Delete(slices.Clone(role.Rules), i, i+1)}
		require.NoError(t, admin.Create(t.Context(), less))
		kubeconfig := user(t, less.Name, "", toView, less.Name)
		require.Contains(t, unread, role.Rules[i].Resources[0])
		harness.Eventually(t, func() error { // RBAC follows in a moment
			r := runAs(t, kubeconfig)
			_, out, _ := strings.Cut(r.out, "SC001")
			for resource, text := range unread {
				if strings.Contains(out, text) == (resource == role.Rules[i].Resources[0]) {
					continue
				}
				return fmt.Errorf("without rule %d: %s%s", i, r.out, r.err)
			}
			return nil
		})
	}
}

// aNamespace: who has a namespace needs no role of ours for what is in it, and with servingcert-view
// in servingcert's own sees the CA too.
func aNamespace(t *testing.T) {
	viewer, editor := user(t, "viewer-of-shop", "shop", toView), user(t, "editor-of-shop", "shop", toView, toEdit)
	harness.Eventually(t, func() error {
		for _, kubeconfig := range []string{viewer, editor} {
			r := pluginAs(t, kubeconfig, "status", "-n", "shop")
			if r.code != 0 || !strings.Contains(r.out, "web-tls") || !strings.Contains(r.out, "not shown: this user may not read ConfigMap") {
				return fmt.Errorf("it ends with %d: %s%s", r.code, r.out, r.err)
			}
		}
		return nil
	})
	r := pluginAs(t, viewer, "doctor", "-n", "shop")
	assert.NotEqual(t, 2, r.code, r.out+r.err)
	assert.Contains(t, r.out, "ConfigMap "+system+"/"+api.ConventionalStatusName)
	assert.NotContains(t, r.out, "Namespaces, Services and workloads")
	r = pluginAs(t, viewer, "renew", "web", "-n", "shop")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "forbidden")
	r = pluginAs(t, editor, "renew", "service/web", "-n", "shop", "--timeout=3m")
	assert.Zero(t, r.code, r.out+r.err)

	bind(t, "viewer-of-shop", system, "servingcert-view")
	harness.Eventually(t, func() error {
		if r := pluginAs(t, viewer, "status", "-n", "shop"); !strings.Contains(r.out, "generation 1 signs") || !strings.Contains(r.out, "targets hold the bundle") {
			return fmt.Errorf("it does not see the CA: %s%s", r.out, r.err)
		} else if strings.Contains(r.out, "Not seen") {
			return fmt.Errorf("it does not see a process: %s%s", r.out, r.err)
		}
		return nil
	})
}

// user returns the kubeconfig of a user who has these ClusterRoles in the namespace, or everywhere.
func user(t *testing.T, name, namespace string, roles ...string) string {
	t.Helper()
	cfg, err := plane.UserConfig(name)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, cfg))
	for _, role := range roles {
		bind(t, name, namespace, role)
	}
	return kubeconfig
}

func bind(t *testing.T, user, namespace, role string) {
	t.Helper()
	name := strings.ReplaceAll(user+"-"+role, ":", "-")
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	if namespace == "" {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects}))
		return
	}
	require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: ref, Subjects: subjects}))
}

// pluginAs runs a command of the plugin.
func pluginAs(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	cmd, out, errs := plugin(t, kubeconfig, args...)
	return ended(t, cmd, out, errs)
}
