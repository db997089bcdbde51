package requests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/servingcert/servingcert/pkg/api"
)

// A namespace that was labelled a moment ago is not yet in the cache. A pod must not be denied
// for that.
func TestANamespaceThatWasLabelledAMomentAgo(t *testing.T) {
	namespace := func(name, label string, finalizers ...string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInject: label}, Finalizers: finalizers}}
	}
	live := fake.NewClientBuilder().WithObjects(
		namespace("known", api.InjectEnabled), namespace("new", api.InjectEnabled), namespace("going", api.InjectEnabled, "example.com/x"), namespace("never", "no"),
	).WithIndex(&corev1.Namespace{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	require.NoError(t, live.Delete(t.Context(), namespace("going", "")))
	c := &Cluster{cache: fake.NewClientBuilder().WithObjects(namespace("known", api.InjectEnabled)).Build(), live: live}
	for name, want := range map[string]struct{ cached, live, terminating bool }{
		"known": {true, true, false},
		"new":   {false, true, false},
		"going": {false, true, true},
		"never": {false, false, false},
		"none":  {false, false, false},
	} {
		optedIn, terminating, err := c.Namespace(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, want.cached, optedIn, name)
		assert.False(t, terminating, name)
		optedIn, terminating, err = c.LiveNamespace(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, want.live, optedIn, name)
		assert.Equal(t, want.terminating, terminating, name)
	}
}
