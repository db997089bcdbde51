package deploy

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// victim is what others have in a cluster: a namespace with a Service, a Secret, a
// ConfigMap, a Deployment and a pod, none of which asks for anything, and an
// APIService and a CRD that ask for the CA bundle.
type victim struct {
	service    *corev1.Service
	secret     *corev1.Secret
	configMap  *corev1.ConfigMap
	deployment *appsv1.Deployment
	pod        *corev1.Pod
	apiService *unstructured.Unstructured
	crd        *unstructured.Unstructured
}

func newVictim(t *testing.T) victim {
	t.Helper()
	namespace := newNamespace(t, false)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "web"}
	selector := map[string]string{"app": "web"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}}
	v := victim{
		service:   newService(t, namespace),
		secret:    secret(namespace, "web", opaque),
		configMap: &corev1.ConfigMap{ObjectMeta: meta},
		deployment: &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: spec},
		}},
		pod:        &corev1.Pod{ObjectMeta: meta, Spec: spec},
		apiService: newAPIService(t, ours),
		crd:        made(t, crd(0)),
	}
	admin := adminClient(t)
	for _, obj := range []client.Object{v.secret, v.configMap, v.deployment, v.pod} {
		require.NoError(t, admin.Create(t.Context(), obj))
	}
	rotatorMayNot(t, v.apiService, `{"spec":{"versionPriority":11}}`, "servingcert-rotator-apiservices")
	rotatorMayNot(t, v.crd, `{"spec":{"names":{"shortNames":["p"]}}}`, "servingcert-rotator-crds")
	return v
}

// attempt is what a thief of a ServiceAccount's token tries, and the words in which
// the API server refuses it.
type attempt struct {
	name    string
	do      func(context.Context, client.Client) error
	refusal string
}

func create(obj client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, obj.DeepCopyObject().(client.Object))
	}
}

func get(obj client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Get(ctx, client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
	}
}

func list(objects client.ObjectList) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.List(ctx, objects) }
}

func remove(obj client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, obj.DeepCopyObject().(client.Object))
	}
}

func merge(obj client.Object, patch string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

// below creates a subresource: a token, or a command in a container.
func below(obj client.Object, subresource string, what client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.SubResource(subresource).Create(ctx, obj, what)
	}
}

var (
	clusterAdmin = &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: api.DefaultNamespace, Name: "servingcert-rotator"}},
	}
	caSecret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CASecretName}}
	account  = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: "servingcert-signer"}}
	policy   = &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "servingcert-signer-secrets"}}
	forever  = &authenticationv1.TokenRequest{}
)

// forSecrets is a webhook that would see every Secret that is written.
var forSecrets = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "stolen"}}

// toAnybody are the attempts that are the same for all.
func toAnybody(v victim, name string) []attempt {
	own := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return []attempt{
		{"register a webhook for Secrets", create(forSecrets), `cannot create resource "mutatingwebhookconfigurations"`},
		{"bind itself to cluster-admin", create(clusterAdmin), `cannot create resource "clusterrolebindings"`},
		{"extend its role", merge(own, `{"rules":[]}`), `cannot patch resource "clusterroles"`},
		{"remove a policy", remove(policy), `cannot delete resource "validatingadmissionpolicies"`},
		{"get a token of another ServiceAccount", below(account, "token", forever), `cannot create resource "serviceaccounts/token"`},
		{"run a command in a container", below(v.pod, "exec", &corev1.Pod{}), `cannot create resource "pods/exec"`},
		{"delete a pod", remove(v.pod), `cannot delete resource "pods"`},
		{"evict a pod", below(v.pod, "eviction", &policyv1.Eviction{ObjectMeta: v.pod.ObjectMeta}), `cannot create resource "pods/eviction"`},
		{"create a pod", create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.pod.Namespace, Name: "mine"}, Spec: v.pod.Spec}), `cannot create resource "pods"`},
		{"send a Service's traffic elsewhere", merge(v.service, `{"spec":{"selector":{"app":"mine"}}}`), `cannot patch resource "services"`},
		{"opt a namespace in", merge(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.pod.Namespace}}, `{"metadata":{"labels":{"a":"b"}}}`), `cannot patch resource "namespaces"`},
	}
}

// toAnybodyElse are those that are the same for all but the signer.
func toAnybodyElse(v victim, name string) []attempt {
	return append(toAnybody(v, name), []attempt{
		{"read a Secret", get(v.secret), `cannot get resource "secrets"`},
		{"read the CA's key", get(caSecret), `cannot get resource "secrets"`},
		{"list Secrets", list(&corev1.SecretList{}), `cannot list resource "secrets"`},
		{"write a Secret", merge(v.secret, `{"data":{}}`), `cannot patch resource "secrets"`},
	}...)
}

func TestWhatAStolenRotatorCannotDo(t *testing.T) {
	v := newVictim(t)
	refuses(t, "servingcert-rotator", append(toAnybodyElse(v, "servingcert-rotator"), []attempt{
		{"change our webhook", merge(ourWebhook(), `{"webhooks":[]}`), `cannot patch resource "mutatingwebhookconfigurations"`},
		{"see webhooks", list(&admissionregistrationv1.MutatingWebhookConfigurationList{}), `cannot list resource "mutatingwebhookconfigurations"`},
		{"change an APIService", merge(v.apiService, `{"spec":{"caBundle":"bmV3"}}`), `cannot patch resource "apiservices"`},
		{"change a CRD", merge(v.crd, `{"spec":{"conversion":null}}`), `cannot patch resource "customresourcedefinitions"`},
		{"write the bundle", merge(bundleOf(v.pod.Namespace), `{"data":{"ca.crt":"mine"}}`), `cannot patch resource "configmaps"`},
		{"say who trusts the CA", merge(ourConfigMap(api.TrustStatusName), `{"data":{"a":"b"}}`), `cannot patch resource "configmaps"`},
		{"write the table of programs", create(ourConfigMap("servingcert-programs")), `cannot create resource "configmaps"`},
		{"read another's ConfigMap", get(v.configMap), `cannot get resource "configmaps"`},
		{"lead in place of another", merge(ourLease("servingcert-trust"), `{"spec":{"holderIdentity":"me"}}`), `cannot patch resource "leases"`},
		{"change a workload's image", merge(v.deployment, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"mine"}]}}}}`), "may restart workloads only whose template"},
		{"forge condition Ready", ready(v.service), "conditions servingcert.dev/Serving, servingcert.dev/Guarded and servingcert.dev/PodsHealthy only"},
	}...))
}

func TestWhatAStolenTrustCannotDo(t *testing.T) {
	v := newVictim(t)
	others := made(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: others, annotations: {`+ours+`}}}`)
	refuses(t, "servingcert-trust", append(toAnybodyElse(v, "servingcert-trust"), []attempt{
		{"change another's webhook", merge(others, `{"webhooks":[]}`), `cannot patch resource "mutatingwebhookconfigurations"`},
		{"serve an API itself", merge(v.apiService, `{"spec":{"service":{"name":"mine"}}}`), onlyAPIServiceBundle},
		{"convert the objects of a CRD itself", merge(v.crd, `{"spec":{"conversion":{"webhook":{"clientConfig":{"service":{"name":"mine"}}}}}}`), onlyCRDBundle},
		{"write a ConfigMap", merge(v.configMap, `{"data":{"ca.crt":"mine"}}`), onlyAsking},
		{"change the CA's status", merge(statusOfCA(t), `{"data":{"ca.crt":"mine"}}`), onlyAsking},
		{"write the table of programs", create(ourConfigMap("servingcert-programs")), `cannot create resource "configmaps"`},
		{"see pods", list(&corev1.PodList{}), `cannot list resource "pods"`},
		{"see Services", list(&corev1.ServiceList{}), `cannot list resource "services"`},
		{"change a pod", merge(v.pod, `{"metadata":{"annotations":{"a":"b"}}}`), `cannot patch resource "pods"`},
		{"restart a workload", merge(v.deployment, `{"spec":{"replicas":0}}`), `cannot patch resource "deployments"`},
		{"forge condition Ready", ready(v.service), `cannot patch resource "services/status"`},
	}...))
}

func TestWhatAStolenSignerCannotDo(t *testing.T) {
	v := newVictim(t)
	token := secret(api.DefaultNamespace, api.CASecretName, func(s *corev1.Secret) { s.Type = corev1.SecretTypeServiceAccountToken })
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "servingcert-rotator"}
	elsewhere := secret(v.secret.Namespace, "mine", labelled, func(s *corev1.Secret) { s.Type = corev1.SecretTypeServiceAccountToken })
	elsewhere.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	refuses(t, "servingcert-signer", append(toAnybody(v, "servingcert-signer"), []attempt{
		{"have the CA's Secret filled with a token", create(token), onlyOpaque},
		{"have another Secret filled with a token", create(elsewhere), "ValidatingAdmissionPolicy"},
		{"create a Secret of another type", create(secret(v.secret.Namespace, "mine", labelled, opaque)), onlyTLS},
		{"create a Secret without our label", create(secret(v.secret.Namespace, "mine")), onlyLabelled},
		{"change another's Secret", merge(v.secret, `{"data":{"tls.key":""}}`), onlyTLS},
		{"delete another's Secret", remove(v.secret), onlyTLS},
		{"see pods", list(&corev1.PodList{}), `cannot list resource "pods"`},
		{"write the table of programs", create(ourConfigMap("servingcert-programs")), `cannot create resource "configmaps"`},
		{"write it by server-side apply", applied("servingcert-programs"), `cannot patch resource "configmaps"`},
		{"create a Lease", create(ourLease("mine")), `cannot create resource "leases"`},
		{"lead in place of another", merge(ourLease("servingcert-trust"), `{"spec":{"holderIdentity":"me"}}`), `cannot patch resource "leases"`},
		{"read another's ConfigMap", get(v.configMap), `cannot get resource "configmaps"`},
		{"write another's ConfigMap", merge(v.configMap, `{"data":{"ca.crt":"mine"}}`), `cannot patch resource "configmaps"`},
		{"change a workload", merge(v.deployment, `{"spec":{"replicas":0}}`), `cannot patch resource "deployments"`},
		{"change an APIService", merge(v.apiService, `{"spec":{"caBundle":"bmV3"}}`), `cannot patch resource "apiservices"`},
		{"change our webhook", merge(ourWebhook(), `{"webhooks":[]}`), `cannot patch resource "mutatingwebhookconfigurations"`},
	}...))
}

func TestWhatAStolenWebhookCannotDo(t *testing.T) {
	v := newVictim(t)
	refuses(t, "servingcert-webhook", append(toAnybodyElse(v, "servingcert-webhook"), []attempt{
		{"create a Secret", create(secret(v.secret.Namespace, "mine")), `cannot create resource "secrets"`},
		{"write a ConfigMap", merge(v.configMap, `{"data":{}}`), `cannot patch resource "configmaps"`},
		{"create a ConfigMap", create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v.pod.Namespace, Name: "mine"}}), `cannot create resource "configmaps"`},
		{"see pods", list(&corev1.PodList{}), `cannot list resource "pods"`},
		{"change a workload", merge(v.deployment, `{"spec":{"replicas":0}}`), `cannot patch resource "deployments"`},
		{"forge condition Ready", ready(v.service), `cannot patch resource "services/status"`},
		{"change our webhook", merge(ourWebhook(), `{"webhooks":[]}`), `cannot patch resource "mutatingwebhookconfigurations"`},
	}...))
}

// refuses makes the attempts, and one more: to act as somebody else.
func refuses(t *testing.T, name string, attempts []attempt) {
	t.Helper()
	c := as(t, name)
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			err := a.do(t.Context(), c)
			require.Error(t, err)
			assert.ErrorContains(t, err, a.refusal)
		})
	}
	for what, who := range map[string]rest.ImpersonationConfig{
		"users":  {UserName: "admin"},
		"groups": {UserName: "system:serviceaccount:servingcert-system:" + name, Groups: []string{"system:masters"}},
	} {
		t.Run("impersonate "+what, func(t *testing.T) {
			cfg, err := cluster.ServiceAccountConfig(t.Context(), api.DefaultNamespace, name)
			require.NoError(t, err)
			cfg.Impersonate = who
			c, err := client.New(cfg, client.Options{Mapper: adminClient(t).RESTMapper()})
			require.NoError(t, err)
			assert.ErrorContains(t, c.List(t.Context(), &corev1.SecretList{}), "cannot impersonate")
		})
	}
}

// The rest of what the threat model says: what a thief can do.
func TestWhatStolenComponentsCanDo(t *testing.T) {
	v := newVictim(t)
	signer, trust := as(t, "servingcert-signer"), as(t, "servingcert-trust")
	require.NoError(t, get(v.secret)(t.Context(), signer), "the signer reads every Secret")
	token := secret(v.secret.Namespace, "token", func(s *corev1.Secret) { s.Type = corev1.SecretTypeServiceAccountToken })
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	require.NoError(t, adminClient(t).Create(t.Context(), token))
	require.NoError(t, get(token)(t.Context(), signer), "and tokens of ServiceAccounts")
	require.NoError(t, signer.Create(t.Context(), secret(v.secret.Namespace, "mine", labelled)))
	kept := secret(v.secret.Namespace, "of-another-controller")
	kept.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: v.service.Name, UID: v.service.UID}}
	require.NoError(t, adminClient(t).Create(t.Context(), kept))
	require.NoError(t, signer.Delete(t.Context(), kept), "the signer deletes what a Service owns")
	require.NoError(t, list(&corev1.ConfigMapList{})(t.Context(), trust), "the rotator of the bundle reads every ConfigMap")
	forged := applycorev1.ConfigMap(api.BundleName, newNamespace(t, false)).WithData(map[string]string{api.BundleKey: "forged"})
	require.NoError(t, trust.Apply(t.Context(), forged, client.FieldOwner("thief")), "and makes the bundle where nobody asks for it")
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.pod.Namespace, Name: "of-another"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "r", Action: "a",
		ReportingController: "example.com/other", ReportingInstance: "other", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: v.pod.Namespace, Name: v.pod.Name},
	}
	require.NoError(t, adminClient(t).Create(t.Context(), event))
	for _, name := range []string{"servingcert-signer", "servingcert-rotator", "servingcert-trust"} {
		require.NoError(t, merge(event, fmt.Sprintf(`{"series":{"count":2,"lastObservedTime":%q}}`, "2026-01-02T03:04:05.000000Z"))(t.Context(), as(t, name)), "%s changes events of others", name)
		its := event.DeepCopy()
		its.Name, its.ResourceVersion = "of-"+name, ""
		require.NoError(t, as(t, name).Create(t.Context(), its), "%s creates events about any object", name)
	}
	require.NoError(t, trust.Patch(t.Context(), v.apiService.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"caBundle":"bmV3"}}`)), client.DryRunAll))
	for name, c := range map[string]client.Client{api.CAStatusName: signer, api.TrustStatusName: trust} {
		require.NoError(t, applied(name)(t.Context(), c), "each reports what it likes, such as the CA that clients trust")
		require.NoError(t, adminClient(t).Delete(t.Context(), ourConfigMap(name)))
	}
	// Policies do not apply to webhook configurations, so those that are named are this
	// rotator's to change as it likes: it is cluster-admin, who can have tokens sent to it.
	rules := fmt.Sprintf(`[{"op":"add","path":"/webhooks/0/rules/-","value":%s}]`, `{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["secrets"],"scope":"*"}`)
	require.NoError(t, trust.Patch(t.Context(), ourWebhook(), client.RawPatch(types.JSONPatchType, []byte(rules)), client.DryRunAll))
}

func ourWebhook() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "servingcert"}}
}

func ourConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: name}}
}

func bundleOf(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.BundleName}}
}

func ourLease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: name}}
}

// applied creates one of our ConfigMaps by a request that has the name in it.
func applied(name string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Apply(ctx, applycorev1.ConfigMap(name, api.DefaultNamespace).WithData(map[string]string{"a": "b"}), client.FieldOwner("thief"))
	}
}

// statusOfCA is the ConfigMap that the signer publishes the bundle in.
func statusOfCA(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAStatusName}}
	admin := adminClient(t)
	require.NoError(t, admin.Create(t.Context(), cm))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.Background(), cm)) })
	return cm
}

// ready says of a Service that it has a certificate.
func ready(svc *corev1.Service) func(context.Context, client.Client) error {
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","reason":"Issued","message":"m","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, api.ConditionReady)
	return func(ctx context.Context, c client.Client) error { return patchStatus(ctx, c, svc, patch) }
}
