//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// events returns the messages of events with the reason about objects of the kind and, unless it is "",
// the name. It returns an error if there are none.
func (c *cluster) events(ctx context.Context, namespace, kind, name, reason string) (string, error) {
	list := &corev1.EventList{}
	if err := c.admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	var messages []string
	for _, e := range list.Items {
		if o := e.InvolvedObject; o.Kind == kind && (name == "" || o.Name == name) && e.Reason == reason {
			messages = append(messages, o.Name+": "+e.Message)
		}
	}
	if len(messages) == 0 {
		return "", fmt.Errorf("no event %s on %s %s among the %d events of namespace %s", reason, kind, name, len(list.Items), namespace)
	}
	return strings.Join(messages, "\n"), nil
}

// annotate sets an annotation of a server's Service.
func (c *cluster) annotate(t *testing.T, s server, key, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.service}}
	require.NoError(t, c.admin.Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, patch)))
}
