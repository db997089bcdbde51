package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
)

// ServiceKind returns what an informer needs to keep of each Service only what keep names, and
// of all Services no more than the share. With openShift, keep is given the Service as
// api.Translate returns it, and what is kept is of that Service.
func ServiceKind(openShift bool, keep func(*corev1.Service) api.Keep, share api.Share) Kind {
	accounts := NewAccounts("Service", share)
	return Kind{Object: &corev1.Service{}, Transform: ServiceTransform(openShift, keep, accounts), Accounts: accounts}
}

// ServiceTransform returns what makes an informer keep of each Service only what keep names.
// accounts may be nil.
func ServiceTransform(openShift bool, keep func(*corev1.Service) api.Keep, accounts *Accounts) toolscache.TransformFunc {
	strip := StrippedService(openShift, keep)
	return func(object any) (any, error) {
		svc, ok := object.(*corev1.Service)
		switch {
		case !ok, api.IsReduced(svc): // a tombstone, or what was stripped before
			return object, nil
		case accounts != nil && !accounts.Admit(svc, func() int64 { return api.SizeOfService(svc) }):
			return api.Reduce(strip(svc), accounts.share), nil
		}
		return strip(svc), nil
	}
}

// ServiceRoom bounds what an Informer keeps of all Services.
func ServiceRoom(share api.Share) Room[*corev1.Service, *corev1.Service] {
	return Room[*corev1.Service, *corev1.Service]{
		Accounts: NewAccounts("Service", share),
		Size:     func(svc, _ *corev1.Service) int64 { return api.SizeOfService(svc) },
		Reduce:   func(svc *corev1.Service) *corev1.Service { return api.Reduce(svc, share) },
		Reduced:  api.IsReduced,
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
