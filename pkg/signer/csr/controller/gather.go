package controller

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// gather collects the situation: all from caches but the pod, which is read live, and
// without the grants.
func (c *Controller) gather(ctx context.Context, r *csr.Request) (s csr.Situation, err error) {
	s = csr.Situation{Now: c.config.Clock(), Request: r, MaxDuration: c.config.MaxDuration, Rates: c.config.Rates}
	s.Authority, s.Limits, s.AuthorityErr = c.config.CA()
	if s.OptedIn, s.Services, err = c.services(ctx, csr.ScopeOf(r, s.Limits)); err != nil {
		return s, err
	}
	if pod, ok := r.Pod(); ok {
		s.Pod, err = c.config.Cluster.Pod(ctx, pod.NamespacedName)
	}
	return s, err
}

// services returns which namespaces of the scope are opted in, and the Services of the
// scope that ask for a certificate.
func (c *Controller) services(ctx context.Context, scope csr.Scope) (optedIn map[string]bool, services []*corev1.Service, err error) {
	if scope.All {
		if optedIn, err = c.config.Cluster.OptedIn(ctx); err != nil {
			return nil, nil, err
		}
		return optedIn, c.config.Cluster.Asking(metav1.NamespaceAll), nil
	}
	optedIn = map[string]bool{}
	for _, name := range scope.Namespaces {
		labelled, terminating, err := c.config.Cluster.Namespace(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if terminating {
			continue
		}
		optedIn[name] = labelled
		services = append(services, c.config.Cluster.Asking(name)...)
	}
	return optedIn, services, nil
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
