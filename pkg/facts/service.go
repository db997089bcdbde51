package facts

import (
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
)

// ServiceTransform returns what makes an informer keep of each Service only what
// keep names. With openShift, keep is given the Service as api.Translate returns
// it, and what is kept is of that Service.
func ServiceTransform(openShift bool, keep func(*corev1.Service) api.Keep) toolscache.TransformFunc {
	return func(object any) (any, error) {
		svc, ok := object.(*corev1.Service)
		if !ok {
			return object, nil // a tombstone
		}
		if openShift {
			svc = api.Translate(svc)
		}
		return api.StripService(svc, keep(svc)), nil
	}
}
