package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
)

// Services is the cache of Services, stripped to the fields that a request depends on. Callers
// must not modify its results.
type Services struct {
	*facts.Informer[*corev1.Service]
}

// Indexes.
const (
	// bySecret finds the Services that name a Secret, by NAMESPACE/NAME.
	bySecret = "secret"
	// byUnnamed finds the Services that name no Secret, see isUnnamed, by their namespace.
	byUnnamed = "unnamed"
	// byOwner finds the managed Secrets that a Service's UID owns.
	byOwner = "owner"
)

func serviceOptions(openShift bool) facts.Options[*corev1.Service, *corev1.Service] {
	return facts.Options[*corev1.Service, *corev1.Service]{
		Example:  &corev1.Service{},
		Derive:   facts.StrippedService(openShift, signer.Keep),
		Indexers: map[string]func(*corev1.Service) []string{bySecret: indexSecret, byUnnamed: indexUnnamed},
	}
}

func indexSecret(svc *corev1.Service) []string {
	if name, asks := api.Wants(svc); asks {
		return []string{svc.Namespace + "/" + name}
	}
	return nil
}

func indexUnnamed(svc *corev1.Service) []string {
	if isUnnamed(svc) && svc.DeletionTimestamp == nil {
		return []string{svc.Namespace}
	}
	return nil
}

// naming returns the Services of the namespace that name the Secret.
func (s *Services) naming(namespace, secret string) []*corev1.Service {
	return s.ByIndex(bySecret, namespace+"/"+secret)
}

// unnamed returns the Services of the namespace that name no Secret.
func (s *Services) unnamed(namespace string) []*corev1.Service {
	return s.ByIndex(byUnnamed, namespace)
}

// partIn returns the Services that name a Secret and, if it exists, its existing
// owners that do not name it.
func (s *Services) partIn(f *signer.SecretFacts) (requesters, owners []*corev1.Service) {
	owners = slices.DeleteFunc(s.ownersOf(f), func(svc *corev1.Service) bool { return asksFor(svc, f.Name) })
	return s.naming(f.Namespace, f.Name), owners
}

// ownersOf returns the owners of a Secret that exist and are not being deleted.
func (s *Services) ownersOf(f *signer.SecretFacts) []*corev1.Service {
	var owners []*corev1.Service
	for _, ref := range f.ServiceOwners() {
		svc := s.Get(types.NamespacedName{Namespace: f.Namespace, Name: ref.Name})
		if svc != nil && svc.UID == ref.UID && svc.DeletionTimestamp == nil {
			owners = append(owners, svc)
		}
	}
	return owners
}

func asksFor(svc *corev1.Service, secret string) bool {
	name, asks := api.Wants(svc)
	return asks && name == secret
}
