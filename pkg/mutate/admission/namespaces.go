package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// optedIn selects the namespaces whose pods are reviewed.
var optedIn = labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled})

// keepSettings keeps of a namespace its identity and the annotations that mean something there.
func keepSettings(object any) (any, error) {
	ns, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone
	}
	kept := facts.Metadata("Namespace")
	kept.ObjectMeta = api.Identity(&ns.ObjectMeta)
	kept.Annotations = api.KeepOnly(ns.Annotations, namespaceKeys)
	return kept, nil
}

// namespaceKeys are the annotations that mean something on a Namespace.
var namespaceKeys = api.OnNamespace.Annotations()

// cachedNamespace returns the annotations of the namespace, or false if the informer does
// not know it: its label is younger than what the informer has seen.
func (l *Lookup) cachedNamespace(ctx context.Context, name string) (annotations map[string]string, ok bool) {
	ns := facts.Metadata("Namespace")
	if err := l.cached.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return nil, false
	}
	return ns.Annotations, true
}

// errNotOptedIn is about a namespace whose pods are not reviewed. Only whoever is not the
// API server asks about those, or the API server for a moment after the label was removed.
var errNotOptedIn = errors.New("the namespace does not have label " + api.LabelInject + "=" + api.InjectEnabled)

// liveNamespace reads the annotations of the namespace from the API server, or returns
// errNotOptedIn.
func (l *Lookup) liveNamespace(ctx context.Context, name string) (map[string]string, error) {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return nil, errNotOptedIn
	}
	ns := facts.Metadata("Namespace")
	switch err := l.live.Get(ctx, client.ObjectKey{Name: name}, ns); {
	case apierrors.IsNotFound(err):
		return nil, errNotOptedIn
	case err != nil:
		return nil, fmt.Errorf("get namespace %q: %w", name, err)
	case !optedIn.Matches(labels.Set(ns.Labels)):
		return nil, errNotOptedIn
	}
	return api.KeepOnly(ns.Annotations, namespaceKeys), nil
}
