package controller

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// gather collects the situation without the grants. Only the pod is read live.
func (c *Controller) gather(ctx context.Context, r *csr.Request) (s csr.Situation, err error) {
	s = csr.Situation{Now: c.config.Clock(), Request: r, MaxDuration: c.config.MaxDuration, OptedIn: map[string]bool{}}
	s.Authority, s.Limits, s.AuthorityErr = c.config.CA()
	scope := csr.ScopeOf(r, s.Limits)
	if pod, ok := r.Pod(); ok {
		if s.Pod, err = c.config.Cluster.Pod(ctx, pod.NamespacedName); err != nil {
			return s, err
		}
	}
	if s.Holders, err = c.config.Cluster.Holding(ctx, scope.Others, csr.MaxReviews); err != nil {
		return s, err
	}
	return s, c.addServices(ctx, &s, scope.Services, c.config.Cluster.Selecting(s.Pod))
}

// addServices adds the Services to the situation, and those with the keys that request a
// certificate.
func (c *Controller) addServices(ctx context.Context, s *csr.Situation, keys []types.NamespacedName, services []*corev1.Service) error {
	terminating := map[string]bool{}
	look := func(namespace string) (err error) {
		if _, known := s.OptedIn[namespace]; known || terminating[namespace] {
			return nil
		}
		var optedIn bool
		if optedIn, terminating[namespace], err = c.config.Cluster.Namespace(ctx, namespace); err == nil && !terminating[namespace] {
			s.OptedIn[namespace] = optedIn
		}
		return err
	}
	for _, key := range keys {
		if err := look(key.Namespace); err != nil {
			return err
		}
	}
	for _, svc := range append(services, c.config.Cluster.Requesters(keys...)...) {
		if err := look(svc.Namespace); err != nil {
			return err
		}
		there := slices.ContainsFunc(s.Services, func(other *corev1.Service) bool {
			return client.ObjectKeyFromObject(other) == client.ObjectKeyFromObject(svc)
		})
		if !there && !terminating[svc.Namespace] {
			s.Services = append(s.Services, svc)
		}
	}
	return nil
}

// reviews makes SubjectAccessReviews of requesters.
type reviews struct {
	client authorizationclient.SubjectAccessReviewInterface
}

// of returns for each Service whether the requester has VerbServe on it.
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
			return nil, fmt.Errorf("review whether the requester may serve Service %s: %w", svc, err)
		}
		grants[svc] = review.Status.Allowed && !review.Status.Denied
	}
	return grants, nil
}
