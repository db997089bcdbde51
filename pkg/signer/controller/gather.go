package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
)

// gather collects the situation from the caches, which include this process's own writes.
func (c *Controller) gather(ctx context.Context, key types.NamespacedName) (signer.Situation, error) {
	s := signer.Situation{
		Now: c.config.Clock(), Key: key, Instance: c.config.Instance, Limits: c.config.Limits, OpenShift: c.config.OpenShift,
		Rates: c.config.Rates, Slot: c.pace.Slot(key),
	}
	if s.Authority, s.AuthorityErr = c.config.Authority(); s.AuthorityErr == nil {
		c.known.Store(s.Authority)
		s.Widened = c.roots.window(s.Authority, s.Now, c.config.ReissueWindow)
		s.Before = c.roots.succeeded(s.Authority, s.Now, c.config.ReissueWindow)
	}
	if s.AuthorityErr != nil && key.Namespace == c.config.Namespace && c.config.Interim != nil {
		if own := c.config.Interim(); own != nil {
			s.Authority, s.AuthorityErr = own, nil
		}
	}
	if known := c.known.Load(); known != nil {
		s.Limits.FormerDomains, s.Bundle = known.FormerDomains, known.Bundle
	}
	namespace, unmanaged := facts.Metadata("Namespace"), facts.Metadata("Secret")
	switch err := c.metadata.Get(ctx, types.NamespacedName{Name: key.Namespace}, namespace); {
	case err == nil:
		s.OptedIn, s.Terminating = true, namespace.DeletionTimestamp != nil
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("get Namespace %s: %w", key.Namespace, err)
	}

	s.External = c.externals.get(key)
	s.Secret = c.secrets.Get(key)
	if s.Secret == nil {
		switch err := c.metadata.Get(ctx, key, unmanaged); {
		case err == nil:
			s.Unmanaged = &unmanaged.ObjectMeta
		case !apierrors.IsNotFound(err):
			return s, fmt.Errorf("get metadata of Secret %s: %w", key, err)
		}
	}
	c.gatherServices(&s)
	return s, nil
}

// gatherServices collects the Services that request or own the Secret.
func (c *Controller) gatherServices(s *signer.Situation) {
	known := s.Secret
	if known == nil {
		known = &signer.SecretFacts{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	}
	s.Requesters, s.Owners = c.services.partIn(known)
	c.gatherKept(s)
}

// gatherUnnamed returns the situation of the Services of the namespace that name no Secret.
func (c *Controller) gatherUnnamed(s signer.Situation) signer.Situation {
	s.Requesters, s.Owners = c.services.unnamed(s.Key.Namespace), nil
	c.gatherKept(&s)
	return s
}

// gatherKept collects the other Secrets that the Services own.
func (c *Controller) gatherKept(s *signer.Situation) {
	s.Kept = map[types.UID]signer.Kept{}
	for _, services := range [][]*corev1.Service{s.Requesters, s.Owners} {
		for _, svc := range services {
			s.Kept[svc.UID] = c.kept.of(svc, s.Key.Name)
		}
	}
}

// read returns the facts of the Secret from the API server, nil if it does not exist.
func (c *Controller) read(ctx context.Context, key types.NamespacedName) (*signer.SecretFacts, error) {
	var secret corev1.Secret
	switch err := c.live.Get(ctx, key, &secret); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return signer.FactsOf(&secret, c.config.Instance), nil
}
