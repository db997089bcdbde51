package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// applyOptional applies a file of deploy/policies for the time of a test.
func applyOptional(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	admin := adminClient(t)
	objects, err := harness.Optional(file)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, harness.Remove(context.WithoutCancel(t.Context()), admin, objects...)) })
	require.NoError(t, deploy.ApplyObjects(t.Context(), admin, owner, objects))
	return objects
}

// user returns a client of a person, to whom the rules are given in the whole cluster.
func user(t *testing.T, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	admin := adminClient(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules}
	require.NoError(t, admin.Create(t.Context(), role))
	bind(t, name, "", "ClusterRole", role.Name)
	cfg, err := cluster.UserConfig(name)
	require.NoError(t, err)
	c, err := client.New(cfg, client.Options{Mapper: admin.RESTMapper()})
	require.NoError(t, err)
	return c
}

// bind gives the user a role in a namespace, or in the whole cluster.
func bind(t *testing.T, user, namespace, kind, role string) {
	t.Helper()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}
	meta := metav1.ObjectMeta{GenerateName: "test-", Namespace: namespace}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if namespace != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	require.NoError(t, adminClient(t).Create(t.Context(), binding))
}

// becomes waits until a write is refused with the words, or is allowed if there are none.
func becomes(t *testing.T, words string, write func() error) {
	t.Helper()
	harness.Eventually(t, func() error {
		err := write()
		switch {
		case words == "":
			return err
		case err == nil || !strings.Contains(err.Error(), words):
			return fmt.Errorf("want a refusal with %q: %w", words, err)
		}
		return nil
	})
}

func mayUse(resource string) string {
	return `one must be allowed to "use" ` + resource
}

func TestWhoMaySetAnnotationsOfAService(t *testing.T) {
	applyOptional(t, "permissions.yaml")
	namespace, elsewhere := newNamespace(t, false), newNamespace(t, false)
	alice := user(t, "alice", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services", "services/status"}, Verbs: []string{"*"}})
	create := func(namespace string, annotations map[string]string) error {
		svc := makers["Service"](namespace, annotations).(*corev1.Service)
		return alice.Create(t.Context(), svc, client.DryRunAll)
	}
	names := map[string]string{api.AnnotationExtraDNSNames: "a.example.com"}
	secret := map[string]string{api.AnnotationSecretName: "web-tls"}
	becomes(t, mayUse("services/extra-dns-names"), func() error { return create(namespace, names) })
	refusedWith(t, create(namespace, secret), mayUse("services/secret-name"))
	refusedWith(t, create(namespace, map[string]string{api.AnnotationKeySource: "pod"}), mayUse("services/secret-name"))
	refusedWith(t, create(namespace, map[string]string{api.OpenShiftSecretName: "web-tls"}), mayUse("services/secret-name"))
	refusedWith(t, create(namespace, map[string]string{api.OpenShiftSecretNameAlpha: "web-tls"}), mayUse("services/secret-name"))
	require.NoError(t, create(namespace, map[string]string{api.AnnotationMode: "env"}))

	// Of a Service that has them, alice may change everything else.
	svc := makers["Service"](namespace, map[string]string{api.AnnotationExtraDNSNames: "a.example.com", api.AnnotationSecretName: "web-tls"}).(*corev1.Service)
	svc.Name = "there"
	require.NoError(t, adminClient(t).Create(t.Context(), svc))
	patch := func(patch string) error {
		return alice.Patch(t.Context(), svc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	require.NoError(t, patch(`{"metadata":{"labels":{"a":"b"}},"spec":{"selector":{"app":"other"}}}`))
	refusedWith(t, patch(at("Service", api.AnnotationExtraDNSNames, "b.example.com")), mayUse("services/extra-dns-names"))
	refusedWith(t, patchStatus(t.Context(), alice, svc, at("Service", api.AnnotationExtraDNSNames, "b.example.com")), mayUse("services/extra-dns-names"))
	require.NoError(t, patch(at("Service", api.AnnotationExtraDNSNames, nil)), "to ask for less needs no right")

	bind(t, "alice", namespace, "ClusterRole", "servingcert-use-extra-dns-names")
	becomes(t, "", func() error { return create(namespace, names) })
	refusedWith(t, create(elsewhere, names), mayUse("services/extra-dns-names"))
	refusedWith(t, create(namespace, secret), mayUse("services/secret-name"))

	// The right may be for a Service of one name.
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "named"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{api.Domain}, Resources: []string{"services/extra-dns-names"}, ResourceNames: []string{"web"}, Verbs: []string{"use"}},
	}}
	require.NoError(t, adminClient(t).Create(t.Context(), role))
	bind(t, "alice", elsewhere, "Role", "named")
	becomes(t, "", func() error { return create(elsewhere, names) })
	other := makers["Service"](elsewhere, names)
	other.SetName("other")
	refusedWith(t, alice.Create(t.Context(), other, client.DryRunAll), mayUse("services/extra-dns-names"))
}

// TestEditorsMayAskForACertificate: the policy takes nothing from whoever may edit a
// namespace but more names.
func TestEditorsMayAskForACertificate(t *testing.T) {
	applyOptional(t, "permissions.yaml")
	namespace := newNamespace(t, false)
	bob := user(t, "bob")
	bind(t, "bob", namespace, "ClusterRole", "edit")
	create := func(annotations map[string]string) error {
		return bob.Create(t.Context(), makers["Service"](namespace, annotations), client.DryRunAll)
	}
	becomes(t, mayUse("services/extra-dns-names"), func() error { return create(map[string]string{api.AnnotationExtraDNSNames: "a.example.com"}) })
	becomes(t, "", func() error { return create(map[string]string{api.AnnotationSecretName: "web-tls"}) })
}

func TestWhoMayHaveTheBundleInKindsOfTheCluster(t *testing.T) {
	applyOptional(t, "permissions.yaml")
	carol := user(t, "carol", rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}, Resources: []string{"customresourcedefinitions", "apiservices"}, Verbs: []string{"*"}})
	create := func(kind, key string) error {
		return carol.Create(t.Context(), clusterWide(kind, key), client.DryRunAll)
	}
	for _, key := range []string{api.AnnotationInjectCABundle, api.OpenShiftInjectCABundle} {
		becomes(t, mayUse("apiservices/inject-ca-bundle"), func() error { return create("APIService", key) })
		becomes(t, mayUse("apiservices/inject-ca-bundle or customresourcedefinitions/inject-ca-bundle"), func() error { return create("CustomResourceDefinition", key) })
	}
	require.NoError(t, create("CustomResourceDefinition", "example.com/other"))
	bind(t, "carol", "", "ClusterRole", "servingcert-use-inject-ca-bundle")
	becomes(t, "", func() error { return create("CustomResourceDefinition", api.AnnotationInjectCABundle) })
	becomes(t, "", func() error { return create("APIService", api.AnnotationInjectCABundle) })
}

// clusterWide makes an object of a kind that is in no namespace, with an annotation.
func clusterWide(kind, key string) client.Object {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAnnotations(map[string]string{key: "true"})
	if kind == "APIService" {
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: kind})
		obj.SetName("v1.shop.example.com")
		obj.Object["spec"] = map[string]any{
			"group": "shop.example.com", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(1),
			"service": map[string]any{"namespace": "default", "name": "shop"},
		}
		return obj
	}
	obj.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind(kind))
	obj.SetName("carts.shop.example.com")
	obj.Object["spec"] = map[string]any{
		"group": "shop.example.com", "scope": "Namespaced", "names": map[string]any{"plural": "carts", "singular": "cart", "kind": "Cart", "listKind": "CartList"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
	}
	return obj
}

func TestThePermissionsPolicyHasNoTypeErrors(t *testing.T) {
	applyOptional(t, "permissions.yaml")
	assert.Empty(t, typeErrors(t, "servingcert-permissions"))
}

func TestTheAPIServerTakesTheOptionalNetworkPolicies(t *testing.T) {
	for _, obj := range applyOptional(t, "egress.yaml") {
		require.Equal(t, "NetworkPolicy", obj.GetKind())
	}
}

func TestWhoMayReplaceTheCA(t *testing.T) {
	applyOptional(t, "permissions.yaml")
	dave := user(t, "dave", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}})
	create := func(annotations map[string]string) error {
		return dave.Create(t.Context(), makers["CA"]("", annotations), client.DryRunAll)
	}
	for _, key := range []string{api.AnnotationRotate, api.AnnotationPromoteDespite} {
		becomes(t, mayUse("configmaps/rotate"), func() error { return create(map[string]string{key: "1"}) })
	}
	require.NoError(t, create(map[string]string{"example.com/a": "b"}))
	require.NoError(t, dave.Create(t.Context(), makers["ConfigMap"](newNamespace(t, false), map[string]string{api.AnnotationInjectCABundle: "true"}), client.DryRunAll),
		"the bundle in a ConfigMap is for everybody")
	bind(t, "dave", api.DefaultNamespace, "Role", "servingcert-use-rotate")
	becomes(t, "", func() error { return create(map[string]string{api.AnnotationRotate: "yearly"}) })

	// The signer writes this ConfigMap, and has no such right.
	require.NoError(t, adminClient(t).Create(t.Context(), makers["CA"]("", map[string]string{api.AnnotationRotate: "yearly"})))
	t.Cleanup(func() {
		assert.NoError(t, adminClient(t).Delete(context.WithoutCancel(t.Context()), makers["CA"]("", nil)))
	})
	signer := as(t, "servingcert-signer")
	var status corev1.ConfigMap
	require.NoError(t, signer.Get(t.Context(), types.NamespacedName{Namespace: api.DefaultNamespace, Name: api.CAStatusName}, &status))
	status.Data = map[string]string{api.BundleKey: "x"}
	require.NoError(t, signer.Update(t.Context(), &status))
}
