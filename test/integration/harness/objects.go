package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

// NewNamespace creates a namespace, opted in or not, in which pods can be created at once, and returns its
// name. The API server completes a name that ends with "-".
func NewNamespace(t testing.TB, c client.Client, name string, optedIn bool) string {
	t.Helper()
	name, err := createNamespace(t.Context(), c, name, optedIn)
	require.NoError(t, err)
	return name
}

// TemporaryNamespace creates a namespace that is deleted when the test ends.
func TemporaryNamespace(t testing.TB, c client.Client, optedIn bool) string {
	t.Helper()
	name := NewNamespace(t, c, "shop-", optedIn)
	t.Cleanup(func() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, c.Delete(context.WithoutCancel(t.Context()), ns))
	})
	return name
}

func createNamespace(ctx context.Context, c client.Client, name string, optedIn bool) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if strings.HasSuffix(name, "-") {
		ns.Name, ns.GenerateName = "", name
	}
	if optedIn {
		ns.Labels = map[string]string{api.LabelInject: api.InjectEnabled}
	}
	if err := c.Create(ctx, ns); err != nil {
		return "", err
	}
	// Pods need a ServiceAccount, which the control plane also creates, a moment later.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
	return ns.Name, client.IgnoreAlreadyExists(c.Create(ctx, account))
}

// Service returns a Service with port 443 that selects app=NAME and asks for Secret NAME-tls. annotations (key,
// value, …) are added to that one, or replace it.
func Service(namespace, name string, annotations ...string) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 443}}},
	}
	for pair := range slices.Chunk(annotations, 2) {
		svc.Annotations[pair[0]] = pair[1]
	}
	return svc
}

// NewService creates the Service that Service returns.
func NewService(t testing.TB, c client.Client, namespace, name string, annotations ...string) *corev1.Service {
	t.Helper()
	svc := Service(namespace, name, annotations...)
	require.NoError(t, c.Create(t.Context(), svc))
	return svc
}

// Change reads an object, changes it and updates it, again if someone else was quicker. It may be called in a cleanup.
func Change[T client.Object](t testing.TB, c client.Client, obj T, how func(T)) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	Eventually(t, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		how(obj)
		return c.Update(ctx, obj)
	})
}

// AwaitSecret returns a Secret once there is one of that name.
func AwaitSecret(t testing.TB, c client.Client, namespace, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	Eventually(t, func() error { return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret) })
	return secret
}

// SomebodysPair is the conventional Secret, which another tool made.
func SomebodysPair(t testing.TB, namespace string) *corev1.Secret {
	t.Helper()
	ca := signertest.NewCA(t, signertest.ClusterNames, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	keyPEM, err := pki.EncodeKey(ca.Key)
	require.NoError(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.ConventionalSecretName}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(ca.Certificate), corev1.TLSPrivateKeyKey: keyPEM},
	}
}

// AwaitInjection waits until the API server calls the webhook for pods of an opted-in namespace. The API server
// learns of the webhook and its CA bundle by a watch.
func AwaitInjection(ctx context.Context, c client.Client) error {
	namespace, err := createNamespace(ctx, c, "asks", true)
	if err != nil {
		return err
	}
	return Await(ctx, func() error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "asks", Annotations: map[string]string{api.AnnotationSecretName: "asks-tls"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}},
		}
		if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if pod.Labels[api.LabelInjected] == "" {
			return fmt.Errorf("a pod was not injected: %v", pod.Annotations)
		}
		return nil
	})
}
