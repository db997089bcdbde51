package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
)

// serviceReader finds Services in the cache. What it returns is not to be
// changed.
type serviceReader struct{ client.Reader }

func (r serviceReader) indexed(ctx context.Context, namespace, value string) ([]*corev1.Service, error) {
	var list corev1.ServiceList
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(bySecret, value)}); err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	services := make([]*corev1.Service, len(list.Items))
	for i := range list.Items {
		services[i] = &list.Items[i]
	}
	return services, nil
}

// partIn returns the Services that name a Secret and, if it exists, those of
// its owners that live and do not name it.
func (r serviceReader) partIn(ctx context.Context, f *signer.SecretFacts) (asking, owning []*corev1.Service, err error) {
	if asking, err = r.indexed(ctx, f.Namespace, f.Name); err != nil {
		return nil, nil, err
	}
	owners, err := r.ownersOf(ctx, f)
	owning = slices.DeleteFunc(owners, func(svc *corev1.Service) bool { return asksFor(svc, f.Name) })
	return asking, owning, err
}

// ownersOf returns the owners of a Secret that live.
func (r serviceReader) ownersOf(ctx context.Context, f *signer.SecretFacts) ([]*corev1.Service, error) {
	var owners []*corev1.Service
	for _, ref := range f.ServiceOwners() {
		svc := &corev1.Service{}
		err := r.Get(ctx, types.NamespacedName{Namespace: f.Namespace, Name: ref.Name}, svc)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get Service %s/%s: %w", f.Namespace, ref.Name, err)
		case svc.UID == ref.UID && svc.DeletionTimestamp == nil:
			owners = append(owners, svc)
		}
	}
	return owners, nil
}

func asksFor(svc *corev1.Service, secret string) bool {
	name, asks := api.Wants(svc)
	return asks && name == secret
}

// secretOf returns the Secret that a Service is filed under: the one that it names,
// or the empty name if it names none, and has our condition or pods that make their keys.
func secretOf(svc *corev1.Service) (name string, ok bool) {
	if name, asks := api.Wants(svc); asks {
		return name, true
	}
	return "", api.WantsPodKeys(svc) || api.Condition(svc, api.ConditionReady) != nil
}
