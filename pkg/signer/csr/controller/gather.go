package controller

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// gather collects the situation: all from caches but the pod, which is read live, and
// without the grants.
func (c *Controller) gather(ctx context.Context, r *csr.Request) (csr.Situation, error) {
	s := csr.Situation{Now: c.config.Clock(), Request: r, Limits: c.config.Limits, MaxDuration: c.config.MaxDuration, OptedIn: map[string]bool{}}
	if s.Authority, s.AuthorityErr = c.config.Authority(); s.AuthorityErr == nil {
		s.Limits.FormerDomains = s.Authority.FormerDomains
	}
	namespaces, err := c.optedIn(ctx, csr.ScopeOf(r, s.Limits))
	if err != nil {
		return s, err
	}
	for _, namespace := range namespaces {
		s.OptedIn[namespace] = true
		var list corev1.ServiceList
		asking := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(byAsking, "true")}
		if err := c.cache.List(ctx, &list, client.InNamespace(namespace), asking); err != nil {
			return s, fmt.Errorf("list Services: %w", err)
		}
		for i := range list.Items {
			s.Services = append(s.Services, &list.Items[i])
		}
	}
	s.Pod, err = c.pod(ctx, r)
	return s, err
}

// optedIn returns the namespaces of the scope that are opted in and not being deleted.
func (c *Controller) optedIn(ctx context.Context, scope csr.Scope) (names []string, err error) {
	if scope.All {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		if err := c.cache.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("list Namespaces: %w", err)
		}
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				names = append(names, list.Items[i].Name)
			}
		}
		return names, nil
	}
	for _, name := range scope.Namespaces {
		namespace := optedIn()
		switch err := c.cache.Get(ctx, types.NamespacedName{Name: name}, namespace); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get Namespace %s: %w", name, err)
		case namespace.DeletionTimestamp == nil:
			names = append(names, name)
		}
	}
	return names, nil
}

// optedIn is an empty Namespace, of which the signer's cache holds the opted-in ones.
func optedIn() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return o
}

// pod returns what there is under the name of the requester's pod, or nil.
func (c *Controller) pod(ctx context.Context, r *csr.Request) (*corev1.Pod, error) {
	reference, ok := r.Pod()
	if !ok {
		return nil, nil
	}
	var pod corev1.Pod
	switch err := c.live.Get(ctx, reference.NamespacedName, &pod); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Pod %s: %w", reference.NamespacedName, err)
	}
	return &pod, nil
}

// reviews asks the API server what a requester may do.
type reviews struct {
	client authorizationclient.SubjectAccessReviewInterface
}

// of says of each Service whether the requester has VerbServe on it.
func (v reviews) of(ctx context.Context, r *csr.Request, services []types.NamespacedName) (map[types.NamespacedName]bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range r.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	grants := map[types.NamespacedName]bool{}
	for _, svc := range services {
		review, err := v.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: r.Username, UID: r.UserUID, Groups: r.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: csr.VerbServe, Group: api.Domain, Version: "*", Resource: "services", Namespace: svc.Namespace, Name: svc.Name,
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask whether the requester may serve Service %s: %w", svc, err)
		}
		grants[svc] = review.Status.Allowed && !review.Status.Denied
	}
	return grants, nil
}
