package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
)

// ServiceTransform returns the transform of an informer that keeps only the parts of each Service that keep names.
// With openShift, it translates each Service with api.Translate first.
func ServiceTransform(openShift bool, keep func(*corev1.Service) api.Keep) toolscache.TransformFunc {
	strip := StrippedService(openShift, keep)
	return func(object any) (any, error) {
		if svc, ok := object.(*corev1.Service); ok {
			return strip(svc), nil
		}
		return object, nil // a tombstone
	}
}

// StrippedService returns a function that strips one Service as ServiceTransform does.
func StrippedService(openShift bool, keep func(*corev1.Service) api.Keep) func(*corev1.Service) *corev1.Service {
	return func(svc *corev1.Service) *corev1.Service {
		if openShift {
			svc = api.Translate(svc)
		}
		return api.StripService(svc, keep(svc))
	}
}

// Metadata returns an empty object for the metadata of the kind, which is of the core group.
func Metadata(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}
