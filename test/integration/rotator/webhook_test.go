package rotator

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// fakeWebhook injects as the webhook does, in every labelled namespace that it is
// not away from. There, pods are created as they are.
type fakeWebhook struct {
	*httptest.Server
	mu   sync.Mutex
	away []string
}

func startWebhook(ctx context.Context) (*fakeWebhook, error) {
	w := &fakeWebhook{}
	w.Server = httptest.NewTLSServer(http.HandlerFunc(w.answer))
	ignore, none, url := admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone, w.URL
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
	err := admin.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "servingcert"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "pods.servingcert.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{api.LabelInject: api.InjectEnabled},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{system, metav1.NamespaceSystem}},
				},
			},
			FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	})
	if err != nil {
		return nil, err
	}
	return w, harness.AwaitInjection(ctx, admin)
}

// leave makes the webhook fail for pods of the namespace, until back.
func (w *fakeWebhook) leave(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = append(w.away, namespace)
}

func (w *fakeWebhook) back(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = slices.DeleteFunc(w.away, func(n string) bool { return n == namespace })
}

func (w *fakeWebhook) isAway(namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.away, namespace)
}

func (w *fakeWebhook) answer(rw http.ResponseWriter, r *http.Request) {
	patch, review, err := w.review(r)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		review.Response.Patch, review.Response.PatchType = patch, &kind
	}
	_ = json.NewEncoder(rw).Encode(review) // the API server would notice
}

func (w *fakeWebhook) review(r *http.Request) ([]byte, *admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		return nil, nil, err
	}
	if w.isAway(review.Request.Namespace) {
		return nil, nil, http.ErrServerClosed
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(review.Request.Object.Raw, pod); err != nil {
		return nil, nil, err
	}
	var services corev1.ServiceList
	if err := admin.List(r.Context(), &services, client.InNamespace(review.Request.Namespace)); err != nil {
		return nil, nil, err
	}
	known := choose.Known{Config: choose.Config{ProxyImage: "example.com/proxy"}}
	for i := range services.Items {
		known.Services = append(known.Services, &services.Items[i])
	}
	known.In = review.Request.Namespace
	known.Elsewhere = func(namespace, name string) *corev1.Service {
		ns, svc := &corev1.Namespace{}, &corev1.Service{}
		if admin.Get(r.Context(), client.ObjectKey{Name: namespace}, ns) != nil || ns.Labels[api.LabelInject] != api.InjectEnabled ||
			admin.Get(r.Context(), client.ObjectKey{Namespace: namespace, Name: name}, svc) != nil || !api.Asks(svc) {
			return nil
		}
		return svc
	}
	var secret corev1.Secret
	err := admin.Get(r.Context(), client.ObjectKey{Namespace: review.Request.Namespace, Name: api.ConventionalSecretName}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, err
	}
	known.ConventionalSecret = err == nil && api.IsConventional(secret.Name, secret.Type, secret.Labels)
	patch, _, err := mutate.Mutate(pod, known)
	if err != nil {
		return nil, nil, err
	}
	data, err := patch.JSON()
	return data, review, err
}
