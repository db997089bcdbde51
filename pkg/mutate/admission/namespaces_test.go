package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// TestKeepSettings: of a namespace no more is kept than the annotations that mean something.
func TestKeepSettings(t *testing.T) {
	ns := facts.Metadata("Namespace")
	ns.ObjectMeta = metav1.ObjectMeta{
		Name: "shop", UID: "u", ResourceVersion: "7", Generation: 1, Labels: map[string]string{api.LabelInject: api.InjectEnabled, "team": "a"},
		Annotations: map[string]string{
			api.AnnotationMode: "env", api.AnnotationMountPath: "/certs", api.Domain + "/future": "x",
			api.Domain: "x", "not-" + api.AnnotationMode: "x", "file." + api.Domain + "/a": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}, Finalizers: []string{"x"},
	}
	before := ns.DeepCopy()
	got, err := keepSettings(ns)
	require.NoError(t, err)
	assert.Equal(t, before, ns, "the informer's object was changed")
	want := facts.Metadata("Namespace")
	want.ObjectMeta = api.Identity(&ns.ObjectMeta)
	want.Annotations = map[string]string{api.AnnotationMode: "env", api.AnnotationMountPath: "/certs"}
	assert.Equal(t, want, got)
	assert.Empty(t, want.Labels)
	assert.Empty(t, want.ManagedFields)
	again, err := keepSettings(got)
	require.NoError(t, err)
	assert.Equal(t, got, again, "an informer may do it twice")

	ns.Annotations = map[string]string{"a": "b"}
	got, err = keepSettings(ns)
	require.NoError(t, err)
	assert.Nil(t, got.(*metav1.PartialObjectMetadata).Annotations, "no map for a namespace that says nothing")

	gone := toolscache.DeletedFinalStateUnknown{Key: "shop"}
	got, err = keepSettings(gone)
	require.NoError(t, err)
	assert.Equal(t, gone, got)
}

func TestOptedInNamespaces(t *testing.T) {
	assert.True(t, optedIn.Matches(labels.Set{api.LabelInject: api.InjectEnabled, "a": "b"}))
	assert.False(t, optedIn.Matches(labels.Set{api.LabelInject: api.InjectDisabled}))
	assert.False(t, optedIn.Matches(labels.Set{}))
}
