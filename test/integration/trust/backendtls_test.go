package trust

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// policyRights applies deploy/policies/backend-tls-policies.yaml until the test ends.
func policyRights(t *testing.T) {
	t.Helper()
	objects, err := harness.Optional("backend-tls-policies.yaml")
	require.NoError(t, err)
	require.NoError(t, deploy.ApplyObjects(t.Context(), admin, "test", objects))
	t.Cleanup(func() { removeAndWait(t, objects...) })
}

// policyCRD installs the kind of the Gateway API, with one version, until the test ends.
func policyCRD(t *testing.T, version string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	manifest, err := controlplane.GatewayCRDs(t.Context())
	require.NoError(t, err)
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	i := slices.IndexFunc(objects, func(obj *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		return kind == "BackendTLSPolicy"
	})
	require.GreaterOrEqual(t, i, 0)
	versions, _, err := unstructured.NestedSlice(objects[i].Object, "spec", "versions")
	require.NoError(t, err)
	versions = slices.DeleteFunc(versions, func(v any) bool { return v.(map[string]any)["name"] != version })
	require.Len(t, versions, 1)
	versions[0].(map[string]any)["served"], versions[0].(map[string]any)["storage"] = true, true
	require.NoError(t, unstructured.SetNestedSlice(objects[i].Object, versions, "spec", "versions"))
	require.NoError(t, admin.Create(t.Context(), objects[i]))
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: objects[i].GetName()}}
	t.Cleanup(func() { removeAndWait(t, crd) })
	harness.Eventually(t, func() error {
		if !slices.ContainsFunc(read(t, crd).Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}) {
			return errors.New("not established")
		}
		return nil
	})
	return crd
}

// gatewayService makes a Service with value as the annotation; "" for none.
func gatewayService(t *testing.T, namespace, name, value string) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	if value != "" {
		svc.Annotations = map[string]string{api.AnnotationBackendTLSPolicy: value}
	}
	create(t, svc)
	return svc
}

func policyNamed(namespace, name string) *unstructured.Unstructured {
	p := &unstructured.Unstructured{}
	p.SetGroupVersionKind(trust.BackendTLSPolicy)
	p.SetNamespace(namespace)
	p.SetName(name)
	return p
}

// hasPolicy waits until the Service has its policy.
func hasPolicy(t *testing.T, svc *corev1.Service) *unstructured.Unstructured {
	t.Helper()
	p := policyNamed(svc.Namespace, svc.Name)
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		want := trust.NewPolicy(svc)
		if spec := p.Object["spec"]; !assert.ObjectsAreEqual(want.Object["spec"], spec) {
			return fmt.Errorf("has %v", spec)
		}
		if owners := p.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != svc.UID {
			return fmt.Errorf("is owned by %v", owners)
		}
		return nil
	})
	return p
}

// hasNoPolicy waits until the Service has none.
func hasNoPolicy(t *testing.T, svc *corev1.Service) {
	t.Helper()
	harness.Eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(svc), policyNamed(svc.Namespace, svc.Name))
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

func withPolicies(c *trustcontroller.Config) { c.BackendTLS = true }

// The kind is picked up when it comes, and given up when it goes, without a restart.
func TestBackendTLSPoliciesComeAndGo(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	ns := newNamespace(t)
	web := gatewayService(t, ns, "web", "true")
	r := startRotator(t, withPolicies) // no kind, and no rights either, which nobody needs then
	holds(t, ns, bundle)
	assert.Empty(t, slices.DeleteFunc(events(t, system), func(e string) bool { return !strings.HasPrefix(e, trustcontroller.EventPoliciesUnsupported) }))

	t.Run("in an older version alone", func(t *testing.T) {
		policyCRD(t, "v1alpha3")
		assert.Contains(t, event(t, system, trustcontroller.EventPoliciesUnsupported, api.TrustStatusName), "in v1alpha3 only: version v1 is needed")
	})
	t.Run("without rights", func(t *testing.T) {
		policyCRD(t, "v1")
		event(t, system, trustcontroller.EventKindRefused, api.TrustStatusName, "cannot watch what BackendTLSPolicies are made of")
		policyRights(t)
		hasPolicy(t, web)
		assert.Equal(t, 1, r.requests.count("backendtlspolicies"))
	})
	// The kind was removed, with the policies. It comes back.
	policyRights(t)
	policyCRD(t, "v1")
	hasPolicy(t, web)
	status(t, map[string]string{api.TrustRefusing: "0"})
}

func TestBackendTLSPolicy(t *testing.T) {
	setSource(t, newBundle(t))
	policyRights(t)
	policyCRD(t, "v1")
	ns := newNamespace(t)
	r := startRotator(t, withPolicies)

	t.Run("made, restored and removed with the annotation", func(t *testing.T) {
		web := gatewayService(t, ns, "web", "true")
		p := hasPolicy(t, web)
		harness.Change(t, admin, p, func(p *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(p.Object, "elsewhere.example.com", "spec", "validation", "hostname"))
			require.NoError(t, unstructured.SetNestedSlice(p.Object, []any{map[string]any{"type": "Hostname", "hostname": "evil.example.com"}}, "spec", "validation", "subjectAltNames"))
		})
		hasPolicy(t, web)
		harness.Change(t, admin, web, func(s *corev1.Service) { s.Annotations = nil })
		hasNoPolicy(t, web)
	})
	t.Run("somebody else's is left alone", func(t *testing.T) {
		theirs := policyNamed(ns, "db")
		theirs.Object["spec"] = map[string]any{
			"targetRefs": []any{map[string]any{"group": "", "kind": "Service", "name": "other"}},
			"validation": map[string]any{"wellKnownCACertificates": "System", "hostname": "db.example.com"},
		}
		create(t, theirs)
		db := gatewayService(t, ns, "db", "true")
		assert.Contains(t, event(t, ns, trustcontroller.EventPolicyNotMade, "db"), "BackendTLSPolicy db exists and is not managed by servingcert: it is not changed")
		other := gatewayService(t, ns, "other", "true")
		assert.Contains(t, event(t, ns, trustcontroller.EventPolicyNotMade, "other"), "BackendTLSPolicy db already targets this Service")
		harness.Change(t, admin, db, func(s *corev1.Service) { s.Annotations = nil })
		harness.Change(t, admin, db, func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationBackendTLSPolicy: "true"} })
		assert.Equal(t, theirs.GetResourceVersion(), read(t, policyNamed(ns, "db")).GetResourceVersion())
		remove(t, theirs)
		hasPolicy(t, db)
		hasPolicy(t, other)
	})
	t.Run("a wrong value", func(t *testing.T) {
		gatewayService(t, ns, "wrong", "yes")
		assert.Contains(t, event(t, ns, trustcontroller.EventPolicyNotMade, "wrong"), `servingcert.dev/backend-tls-policy: "yes": must be "true" or "false"`)
	})
	t.Run("without the label there is no bundle to refer to", func(t *testing.T) {
		plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}}
		create(t, plain)
		web := gatewayService(t, plain.Name, "web", "true")
		assert.Contains(t, event(t, plain.Name, trustcontroller.EventPolicyNotMade, "web"), "is not labelled servingcert.dev/inject=enabled")
		harness.Change(t, admin, plain, func(n *corev1.Namespace) { n.Labels = map[string]string{api.LabelInject: api.InjectEnabled} })
		hasPolicy(t, web)
	})
	t.Run("the admission policy", func(t *testing.T) { policyIsNarrow(t, ns) })
	n := len(r.requests.since(0))
	again := startRotator(t, withPolicies)
	hasPolicy(t, gatewayService(t, ns, "last", "true")) // so that all was looked at
	assert.LessOrEqual(t, again.requests.count("backendtlspolicies")+r.requests.count("backendtlspolicies")-countIn(r.requests.since(0)[:n]), 2, "at rest nothing is written")
}

func countIn(writes []string) (n int) {
	for _, w := range writes {
		if strings.Contains(w, "backendtlspolicies") {
			n++
		}
	}
	return n
}

// policyIsNarrow: whoever has the rotator's token makes no gateway trust another root, and
// changes no policy of others.
func policyIsNarrow(t *testing.T, ns string) {
	t.Helper()
	rotators, err := client.New(account, client.Options{Scheme: admin.Scheme()})
	require.NoError(t, err)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "thief", UID: "1"}}
	for name, spoil := range map[string]func(p *unstructured.Unstructured){
		"hostname": func(p *unstructured.Unstructured) { set(t, p, "evil.example.com", "spec", "validation", "hostname") },
		"well known": func(p *unstructured.Unstructured) {
			set(t, p, "System", "spec", "validation", "wellKnownCACertificates")
			unstructured.RemoveNestedField(p.Object, "spec", "validation", "caCertificateRefs")
		},
		"ConfigMap": func(p *unstructured.Unstructured) { ref(p, "validation", "caCertificateRefs")["name"] = "evil" },
		"target":    func(p *unstructured.Unstructured) { ref(p, "targetRefs")["name"] = "db" },
		"label":     func(p *unstructured.Unstructured) { p.SetLabels(nil) },
	} {
		p := trust.NewPolicy(svc)
		spoil(p)
		err := rotators.Create(t.Context(), p, client.DryRunAll)
		assert.ErrorContains(t, err, "the rotator", name)
	}
	require.NoError(t, rotators.Create(t.Context(), trust.NewPolicy(svc), client.DryRunAll))
	theirs := policyNamed(ns, "theirs")
	theirs.Object["spec"] = trust.NewPolicy(svc).Object["spec"]
	create(t, theirs)
	for _, err := range []error{
		rotators.Delete(t.Context(), theirs, client.DryRunAll),
		rotators.Patch(t.Context(), theirs, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"servingcert.dev/managed-by":"servingcert-trust"}}}`)), client.DryRunAll),
	} {
		require.True(t, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
		assert.ErrorContains(t, err, "only the BackendTLSPolicies that it made")
	}
}

func set(t *testing.T, p *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	require.NoError(t, unstructured.SetNestedField(p.Object, value, path...))
}

// ref returns the first element of a list below spec.
func ref(p *unstructured.Unstructured, path ...string) map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(p.Object, append([]string{"spec"}, path...)...)
	return list.([]any)[0].(map[string]any)
}
