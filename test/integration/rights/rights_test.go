package rights

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// spare are rights that the scene below does not need for sure, with the reason why
// they are granted nevertheless.
var spare = map[string]string{
	"signer:  events.k8s.io events * patch":  "an event that repeats word for word is counted by a patch",
	"trust:  events.k8s.io events * patch":   "the same",
	"rotator:  events.k8s.io events * patch": "the same",
}

// TestEveryRightIsUsed: a right that nothing needs is one that only a thief would
// use, and a request that is refused is something that does not work.
func TestEveryRightIsUsed(t *testing.T) {
	targets := newTargets(t)
	kinds := []string{"Deployment", "StatefulSet", "DaemonSet"}
	for _, kind := range kinds {
		harness.NewNamespace(t, admin, namespaceOf(kind), true)
	}
	harness.NewNamespace(t, admin, "crash", true)
	harness.NewNamespace(t, admin, "openshift", true)

	metrics := []string{
		start(t, "signer", "--ca-soak=1s", "--ca-reissue-window=1s"),
		start(t, "trust", "--backend-tls-policies"),
		start(t, "rotator", "--propagation-time=1s", "--verify-interval=1s", "--pod-cidrs=127.0.0.0/8"),
		startWebhook(t),
	}
	isKept(t, targets)
	for _, address := range metrics {
		isAskedFor(t, address)
	}

	var (
		workloads []client.Object
		pods      []*corev1.Pod
	)
	for i, kind := range kinds {
		namespace := namespaceOf(kind)
		newService(t, namespace, api.AnnotationSecretName)
		obj, owner := workload(t, namespace, kind)
		workloads = append(workloads, obj)
		pods = append(pods, newPod(t, namespace, "web-abc-1", owner))
		serves(t, pods[i], fmt.Sprintf("127.9.9.%d", i+1))
	}
	unknownNamespace(t)
	crashing(t)
	asOnOpenShift(t)

	if harness.Serves(t, plane.AdminConfig(), controlplane.PodCertificates) {
		podKey(t, namespaceOf("Deployment"))
	}
	csr(t, namespaceOf("Deployment"))
	for _, kind := range kinds {
		renew(t, namespaceOf(kind))
	}
	for i := range kinds {
		isWoken(t, pods[i])
		isRestarted(t, workloads[i])
	}
	gatewayPolicy(t, namespaceOf("Deployment"))
	immutable(t, namespaceOf("Deployment"))
	restored(t, targets[0])
	conventional(t, "crash", "openshift")
	givenUp(t, targets)
	succession(t)
	leasesComeBack(t)

	rights := granted(t)
	require.Greater(t, len(rights), 50)
	events, err := plane.AuditEvents()
	require.NoError(t, err)
	require.Greater(t, len(events), 100)
	assert.Empty(t, refused(events), "requests that were refused")
	notServed := ofMissing(t, rights)
	var excess []string
	for _, name := range unused(rights, events) {
		if spare[name] == "" && !slices.Contains(notServed, name) {
			excess = append(excess, name)
		}
	}
	assert.Empty(t, excess, "no request needed these rights")
	for name := range spare {
		assert.True(t, slices.ContainsFunc(rights, func(r right) bool { return r.String() == name }), "%s is granted by no rule", name)
	}
}

// leasesComeBack: a process creates its Lease again.
func leasesComeBack(t *testing.T) {
	t.Helper()
	for _, process := range []string{"signer", "trust", "rotator"} {
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = system, "servingcert-"+process
		require.NoError(t, admin.Delete(t.Context(), lease))
		harness.Eventually(t, func() error {
			err := admin.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)
			if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
				err = fmt.Errorf("Lease %s has no holder", lease.Name)
			}
			return err
		})
	}
}

// ofMissing returns the rights to what an older API server does not serve.
func ofMissing(t *testing.T, rights []right) []string {
	t.Helper()
	var out []string
	for _, feature := range controlplane.Features() {
		if harness.Serves(t, plane.AdminConfig(), feature) {
			continue
		}
		for _, r := range rights {
			if r.of(feature) {
				out = append(out, r.String())
			}
		}
	}
	return out
}

func namespaceOf(kind string) string {
	return map[string]string{"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}[kind]
}

// newTargets makes an object of each kind that can be annotated, a ConfigMap first,
// and a role that names the webhook configuration.
func newTargets(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	manifest(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: rights}
rules: [{apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], resourceNames: [rights], verbs: [patch]}]
`)
	manifest(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rights}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: rights}
subjects: [{kind: ServiceAccount, name: servingcert-trust, namespace: servingcert-system}]
`)
	return []*unstructured.Unstructured{
		manifest(t, `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: default, name: client-trust, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
`),
		manifest(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.rights.example.com, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
spec: {group: rights.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10, service: {namespace: shop, name: a}}
`),
		manifest(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: rights, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
webhooks:
- name: rights.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {namespace: shop, name: a}}
  rules: [{apiGroups: [rights.example.org], apiVersions: [v1], operations: [CREATE], resources: [toys]}]
`),
		manifest(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.rights.example.org, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
spec:
  group: rights.example.org
  names: {plural: toys, singular: toy, kind: Toy}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: shop, name: a}}}
`),
	}
}

// isKept waits until every target holds the bundle: those, our webhook's
// configuration, the ConfigMaps of namespaces, and the ClusterTrustBundle.
func isKept(t *testing.T, targets []*unstructured.Unstructured) {
	t.Helper()
	// Five namespaces and the system's own, the targets, the webhook, the ClusterTrustBundle.
	count := 6 + len(targets) + 2
	if !harness.Serves(t, plane.AdminConfig(), controlplane.ClusterTrustBundles) {
		count--
	}
	want := fmt.Sprint(count)
	statusSays(t, api.TrustStatusName, api.TrustHolding, func(v string) bool { return v == want })
}

// unknownNamespace asks the webhook about a pod of a namespace that it does not know,
// as the API server does when its label is younger than what the webhook has seen.
func unknownNamespace(t *testing.T) {
	t.Helper()
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","namespace":"default",
		"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},
		"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"app","image":"a"}]}}}}`
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(insecure.CloseIdleConnections)
	service := &corev1.Service{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-webhook"}, service))
	response, err := insecure.Post("https://"+net.JoinHostPort(service.Spec.ClusterIP, "9443")+"/mutate-v1-pod", "application/json", strings.NewReader(review))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// crashing has a pod fail that the webhook gave something, which is reported.
func crashing(t *testing.T) {
	t.Helper()
	newService(t, "crash", api.AnnotationSecretName)
	_, owner := workload(t, "crash", "Deployment")
	pod := newPod(t, "crash", "web-abc-1", owner)
	crashes(t, pod)
	isReported(t, "crash")
}

// asOnOpenShift asks in OpenShift's words, and has the signer answer in them.
func asOnOpenShift(t *testing.T) {
	t.Helper()
	newService(t, "openshift", "service.beta.openshift.io/serving-cert-secret-name")
}

// gatewayPolicy has Service web ask for a BackendTLSPolicy, which somebody changes, and then
// not any more.
func gatewayPolicy(t *testing.T, namespace string) {
	t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(trust.BackendTLSPolicy)
	has := func(hostname string) {
		t.Helper()
		harness.Eventually(t, func() error {
			err := admin.Get(t.Context(), client.ObjectKeyFromObject(svc), policy)
			if got, _, _ := unstructured.NestedString(policy.Object, "spec", "validation", "hostname"); err == nil && got != hostname {
				err = fmt.Errorf("policy of %q", got)
			}
			return err
		})
	}
	patch(t, svc, `{"metadata":{"annotations":{%q:"true"}}}`, api.AnnotationBackendTLSPolicy)
	has("web." + namespace + ".svc")
	patch(t, policy, `{"spec":{"validation":{"hostname":"example.com"}}}`)
	has("web." + namespace + ".svc")
	patch(t, svc, `{"metadata":{"annotations":{%q:null}}}`, api.AnnotationBackendTLSPolicy)
	isGone(t, policy)
}

// immutable has a Secret of ours made anew that cannot be renewed in place.
func immutable(t *testing.T, namespace string) {
	t.Helper()
	patch(t, harness.AwaitSecret(t, admin, namespace, "web-tls"), `{"immutable":true}`)
	renew(t, namespace)
}

// restored removes the bundle from a target twice, which makes one event with a
// count.
func restored(t *testing.T, target *unstructured.Unstructured) {
	t.Helper()
	for range 2 {
		patch(t, target, `{"data":null}`)
		harness.Eventually(t, func() error {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(target), target); err != nil {
				return err
			}
			if data, _, _ := unstructured.NestedString(target.Object, "data", api.BundleKey); data == "" {
				return fmt.Errorf("ConfigMap %s has no bundle", target.GetName())
			}
			return nil
		})
	}
}

// conventional has Secrets serving-cert in namespaces, one after the other.
func conventional(t *testing.T, namespaces ...string) {
	t.Helper()
	for _, namespace := range namespaces {
		create(t, harness.SomebodysPair(t, namespace))
		statusSays(t, api.ConventionalStatusName, api.ConventionalNamespacesKey, func(v string) bool { return strings.Contains(v, namespace) })
	}
}

// givenUp takes the annotations away, and waits until the rotator owns no field.
func givenUp(t *testing.T, targets []*unstructured.Unstructured) {
	t.Helper()
	for _, target := range targets {
		patch(t, target, `{"metadata":{"annotations":null}}`)
		harness.Eventually(t, func() error {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(target), target); err != nil {
				return err
			}
			for _, e := range target.GetManagedFields() {
				if e.Manager == trust.FieldManager {
					return fmt.Errorf("%s %s: the rotator owns %s", target.GetKind(), target.GetName(), e.FieldsV1)
				}
			}
			return nil
		})
	}
}

// succession has another generation of the CA made, and all certificates replaced.
func succession(t *testing.T) {
	t.Helper()
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName}}
	patch(t, status, `{"metadata":{"annotations":{%q:"drill"}}}`, api.AnnotationRotate)
	statusSays(t, api.CAStatusName, api.CAPhase, func(v string) bool { return v == api.PhaseRetire })
}
