package target

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// identity is what an existing object of these tests has.
func identity(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: "it", UID: "u", ResourceVersion: "7",
		Labels:        map[string]string{"app": "x", api.LabelInject: api.InjectEnabled},
		Annotations:   map[string]string{"note": "x", api.AnnotationInjectCABundle: "true"},
		Finalizers:    []string{"example.com/x"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Apply"}, {Manager: trust.FieldManager, Operation: "Apply", FieldsV1: &metav1.FieldsV1{}}},
	}
}

func kindNamed(t *testing.T, name string) Kind {
	t.Helper()
	for _, kind := range Kinds(true) {
		if kind.Name == name {
			return kind
		}
	}
	require.Fail(t, "no kind "+name)
	return Kind{}
}

func configMap(data map[string]string, immutable bool) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: identity("shop"), Data: data, Immutable: &immutable, BinaryData: map[string][]byte{"b": {1}}}
}

func annotatedForOpenShift(data map[string]string) *corev1.ConfigMap {
	cm := configMap(data, false)
	cm.Annotations = map[string]string{api.OpenShiftInjectCABundle: "true"}
	return cm
}

func trustBundle(held string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"trustBundle": held}}}
	u.SetName("it")
	u.SetResourceVersion("7")
	return u
}

func mutating(clients ...admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.MutatingWebhookConfiguration {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: identity("")}
	for i, c := range clients {
		ignore := admissionregistrationv1.Ignore
		config.Webhooks = append(config.Webhooks, admissionregistrationv1.MutatingWebhook{Name: string(rune('a' + i)), ClientConfig: c, FailurePolicy: &ignore})
	}
	return config
}

func validating(clients ...admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.ValidatingWebhookConfiguration {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: identity("")}
	for i, c := range clients {
		config.Webhooks = append(config.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: string(rune('a' + i)), ClientConfig: c})
	}
	return config
}

func apiServiceWith(service, insecure bool, bundle string) *apiregistrationv1.APIService {
	s := &apiregistrationv1.APIService{
		ObjectMeta: identity(""),
		Spec:       apiregistrationv1.APIServiceSpec{InsecureSkipTLSVerify: insecure, CABundle: []byte(bundle), Group: "g"},
	}
	if service {
		s.Spec.Service = &apiregistrationv1.ServiceReference{Name: "s"}
	}
	return s
}

func crdWith(strategy apiextensionsv1.ConversionStrategyType, config *apiextensionsv1.WebhookClientConfig) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: identity(""),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "g",
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: strategy, Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: config, ConversionReviewVersions: []string{"v1"}},
			},
		},
	}
}

func byService(bundle string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s"}, CABundle: []byte(bundle)}
}

func byURL(bundle string) admissionregistrationv1.WebhookClientConfig {
	url := "https://example.com"
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: []byte(bundle)}
}

// Every row is evaluated as the API server has it and as the cache does.
func TestEvaluate(t *testing.T) {
	const bundle = "bundle"
	tests := []struct {
		kind, name string
		object     client.Object
		state      trust.State
		reason     trust.Reason
		document   string // the fields that are set; "" if none is to be written
	}{
		{"NamespaceConfigMap", "holds", configMap(map[string]string{"ca.crt": bundle, "x": "y"}, false), trust.StateHolds, "", ""},
		{"NamespaceConfigMap", "holds, immutable", configMap(map[string]string{"ca.crt": bundle}, true), trust.StateHolds, "", ""},
		{"NamespaceConfigMap", "differs", configMap(map[string]string{"ca.crt": "other", "x": "y"}, false), trust.StatePending, trust.ReasonDiffers, `{"data":{"ca.crt":"bundle"}}`},
		{"NamespaceConfigMap", "no key", configMap(map[string]string{"x": "y"}, false), trust.StatePending, trust.ReasonDiffers, `{"data":{"ca.crt":"bundle"}}`},
		{"NamespaceConfigMap", "no data", configMap(nil, false), trust.StatePending, trust.ReasonDiffers, `{"data":{"ca.crt":"bundle"}}`},
		{"NamespaceConfigMap", "differs, immutable", configMap(map[string]string{"ca.crt": "other"}, true), trust.StateRefuses, trust.ReasonImmutable, ""},

		{"ConfigMap", "holds", configMap(map[string]string{"ca.crt": bundle, "x": "y"}, true), trust.StateHolds, "", ""},
		{"ConfigMap", "differs", configMap(map[string]string{"ca.crt": "other", "service-ca.crt": bundle}, false), trust.StatePending, trust.ReasonDiffers, `{"data":{"ca.crt":"bundle"}}`},
		{"ConfigMap", "no data", configMap(nil, false), trust.StatePending, trust.ReasonDiffers, `{"data":{"ca.crt":"bundle"}}`},
		{"ConfigMap", "in OpenShift's words", annotatedForOpenShift(map[string]string{"service-ca.crt": bundle}), trust.StateHolds, "", ""},
		{"ConfigMap", "in OpenShift's words, not alone", annotatedForOpenShift(map[string]string{"service-ca.crt": bundle, "x": "y"}), trust.StatePending, trust.ReasonDiffers, `{"data":{"service-ca.crt":"bundle"}}`},
		{"ConfigMap", "in OpenShift's words, the other key", annotatedForOpenShift(map[string]string{"ca.crt": bundle}), trust.StatePending, trust.ReasonDiffers, `{"data":{"service-ca.crt":"bundle"}}`},

		{"ClusterTrustBundle", "holds", trustBundle(bundle), trust.StateHolds, "", ""},
		{"ClusterTrustBundle", "differs", trustBundle("other"), trust.StatePending, trust.ReasonDiffers, `{"spec":{"signerName":"servingcert.dev/serving","trustBundle":"bundle"}}`},
		{"ClusterTrustBundle", "empty", trustBundle(""), trust.StatePending, trust.ReasonDiffers, `{"spec":{"signerName":"servingcert.dev/serving","trustBundle":"bundle"}}`},

		{"MutatingWebhookConfiguration", "holds", mutating(byService(bundle), byURL("theirs"), byService(bundle)), trust.StateHolds, "", ""},
		{"MutatingWebhookConfiguration", "one differs", mutating(byService(bundle), byURL("theirs"), byService("old")), trust.StatePending, trust.ReasonDiffers,
			`{"webhooks":[{"name":"a","clientConfig":{"caBundle":"YnVuZGxl"}},{"name":"c","clientConfig":{"caBundle":"YnVuZGxl"}}]}`},
		{"MutatingWebhookConfiguration", "empty", mutating(byService("")), trust.StatePending, trust.ReasonDiffers, `{"webhooks":[{"name":"a","clientConfig":{"caBundle":"YnVuZGxl"}}]}`},
		{"MutatingWebhookConfiguration", "urls only", mutating(byURL("")), trust.StateUnsuitable, trust.ReasonNoField, ""},
		{"MutatingWebhookConfiguration", "no webhooks", mutating(), trust.StateUnsuitable, trust.ReasonNoField, ""},

		{"ValidatingWebhookConfiguration", "holds", validating(byService(bundle), byURL("theirs")), trust.StateHolds, "", ""},
		{"ValidatingWebhookConfiguration", "differs", validating(byURL(""), byService("old")), trust.StatePending, trust.ReasonDiffers, `{"webhooks":[{"name":"b","clientConfig":{"caBundle":"YnVuZGxl"}}]}`},
		{"ValidatingWebhookConfiguration", "urls only", validating(byURL("")), trust.StateUnsuitable, trust.ReasonNoField, ""},

		{"APIService", "holds", apiServiceWith(true, false, bundle), trust.StateHolds, "", ""},
		{"APIService", "differs", apiServiceWith(true, false, "old"), trust.StatePending, trust.ReasonDiffers, `{"spec":{"caBundle":"YnVuZGxl"}}`},
		{"APIService", "skips verification", apiServiceWith(true, true, ""), trust.StateUnsuitable, trust.ReasonNoField, ""},
		{"APIService", "local", apiServiceWith(false, false, ""), trust.StateUnsuitable, trust.ReasonNoField, ""},

		{"CustomResourceDefinition", "holds", crdWith("Webhook", &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{}, CABundle: []byte(bundle)}), trust.StateHolds, "", ""},
		{"CustomResourceDefinition", "differs", crdWith("Webhook", &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{}}), trust.StatePending, trust.ReasonDiffers,
			`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"YnVuZGxl"}}}}}`},
		{"CustomResourceDefinition", "by url", crdWith("Webhook", &apiextensionsv1.WebhookClientConfig{}), trust.StateUnsuitable, trust.ReasonNoField, ""},
		{"CustomResourceDefinition", "no client", crdWith("Webhook", nil), trust.StateUnsuitable, trust.ReasonNoField, ""},
		{"CustomResourceDefinition", "no conversion", crdWith("None", nil), trust.StateUnsuitable, trust.ReasonNoField, ""},
	}
	for _, tt := range tests {
		t.Run(tt.kind+"/"+tt.name, func(t *testing.T) {
			kind := kindNamed(t, tt.kind)
			cached, err := Transform(kind.strip)(tt.object.DeepCopyObject())
			require.NoError(t, err)
			for from, object := range map[string]client.Object{"API server": tt.object, "cache": cached.(client.Object)} {
				got := kind.evaluate(object, trust.Bundle{PEM: []byte(bundle)})
				assert.Equal(t, tt.state, got.State, from)
				assert.Equal(t, tt.reason, got.Reason, from)
				assert.Equal(t, tt.state == trust.StateHolds, got.Message == "", "%s: a message where something is to be said: %q", from, got.Message)
				if tt.document != "" {
					assert.JSONEq(t, tt.document, document(t, kind, object, bundle), from)
				}
			}
		})
	}
}

// document returns the document as JSON, without its identity, which it checks.
func document(t *testing.T, kind Kind, object client.Object, bundle string) string {
	t.Helper()
	data, err := json.Marshal(kind.document(object, trust.Bundle{PEM: []byte(bundle)}))
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(data, &doc))
	meta := doc["metadata"].(map[string]any)
	assert.Equal(t, object.GetName(), meta["name"])
	if created := kind.Name == "NamespaceConfigMap" || kind.Name == "ClusterTrustBundle"; !created {
		// Without these an apply would make anew what was just deleted.
		assert.Equal(t, "u", meta["uid"])
		assert.Equal(t, "7", meta["resourceVersion"])
	}
	for _, key := range []string{"metadata", "apiVersion", "kind"} {
		delete(doc, key)
	}
	data, err = json.Marshal(doc)
	require.NoError(t, err)
	return string(data)
}

func TestTransform(t *testing.T) {
	kind := kindNamed(t, "NamespaceConfigMap")
	got, err := Transform(kind.strip)(configMap(map[string]string{"ca.crt": "x", "big": "data"}, false))
	require.NoError(t, err)
	no := false
	assert.Equal(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "it", UID: "u", ResourceVersion: "7",
			Labels:        map[string]string{api.LabelInject: api.InjectEnabled},
			Annotations:   map[string]string{api.AnnotationInjectCABundle: "true"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: trust.FieldManager, Operation: "Apply", FieldsV1: &metav1.FieldsV1{}}},
		},
		Data:      map[string]string{"ca.crt": "x"},
		Immutable: &no,
	}, got)

	webhooks, err := Transform(kindNamed(t, "MutatingWebhookConfiguration").strip)(mutating(byService("x")))
	require.NoError(t, err)
	assert.Equal(t, []admissionregistrationv1.MutatingWebhook{{Name: "a", ClientConfig: byService("x")}}, webhooks.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks)

	tombstone := struct{}{}
	left, err := Transform(kind.strip)(tombstone)
	require.NoError(t, err)
	assert.Equal(t, tombstone, left)
}

func TestKindsAreDistinct(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range Kinds(false) {
		assert.False(t, names[kind.Name], kind.Name)
		names[kind.Name] = true
	}
}

// What asks by the annotation is what api says of it: doctor goes by that.
func TestWhatAsksByTheAnnotation(t *testing.T) {
	var got []api.BundleTarget
	for _, kind := range Kinds(false) {
		if kind.Name == "NamespaceConfigMap" || kind.Name == "ClusterTrustBundle" {
			continue // nothing asks for these
		}
		scheme := runtime.NewScheme()
		require.NoError(t, errors.Join(corev1.AddToScheme(scheme), kind.AddToScheme(scheme)))
		gvk, err := apiutil.GVKForObject(kind.Object, scheme)
		require.NoError(t, err)
		assert.Equal(t, kind.Name, gvk.Kind)
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		got = append(got, api.BundleTarget{Kind: kind.Name, Group: gvk.Group, Resource: plural.Resource})
	}
	assert.Equal(t, api.BundleTargets(), got)
}
