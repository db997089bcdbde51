package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
)

// ServiceKind returns what an informer needs to keep of each Service only what keep names. With openShift, keep is given the Service as
// api.Translate returns it, and what is kept is of that Service.
func ServiceKind(openShift bool, keep func(*corev1.Service) api.Keep) Kind {
	return Kind{Object: &corev1.Service{}, Transform: ServiceTransform(openShift, keep)}
}

// ServiceTransform returns what makes an informer keep of each Service only what keep names.
func ServiceTransform(openShift bool, keep func(*corev1.Service) api.Keep) toolscache.TransformFunc {
	strip := StrippedService(openShift, keep)
	return func(object any) (any, error) {
		if svc, ok := object.(*corev1.Service); ok {
			return strip(svc), nil
		}
		return object, nil // a tombstone
	}
}

// StrippedService returns what keeps of one Service only what keep names.
func StrippedService(openShift bool, keep func(*corev1.Service) api.Keep) func(*corev1.Service) *corev1.Service {
	return func(svc *corev1.Service) *corev1.Service {
		if openShift {
			svc = api.Translate(svc)
		}
		return api.StripService(svc, keep(svc))
	}
}

// MetadataKind returns what an informer needs to keep of the metadata of objects what keep
// returns.
func MetadataKind(kind schema.GroupVersionKind, keep toolscache.TransformFunc) Kind {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return Kind{Object: o, Transform: keep}
}
