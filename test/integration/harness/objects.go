package harness

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
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
