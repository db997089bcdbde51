package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/signer"
)

// gather collects the situation from the caches, and from what this process wrote
// and they have not seen.
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
		s.Limits.FormerDomains = known.FormerDomains
	}
	namespace, obstacle := metadataOf(namespaceKind), metadataOf(secretKind)
	switch err := c.metadata.Get(ctx, types.NamespacedName{Name: key.Namespace}, namespace); {
	case err == nil:
		s.OptedIn, s.Terminating = true, namespace.DeletionTimestamp != nil
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("get Namespace %s: %w", key.Namespace, err)
	}

	s.Secret = c.secret(key, s.Now)
	if s.Secret == nil {
		switch err := c.metadata.Get(ctx, key, obstacle); {
		case err == nil:
			s.Obstacle = &obstacle.ObjectMeta
		case !apierrors.IsNotFound(err):
			return s, fmt.Errorf("get metadata of Secret %s: %w", key, err)
		}
	}
	c.gatherServices(&s)
	return s, nil
}

// gatherServices collects the Services that have, or may want, a part in the
// Secret.
func (c *Controller) gatherServices(s *signer.Situation) {
	known := s.Secret
	if known == nil {
		known = &signer.SecretFacts{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name}}
	}
	s.Asking, s.Owning = c.services.partIn(known)
	c.gatherKept(s)
}

// gatherUnnamed turns the situation of the empty name into that of the Services that
// name no Secret, and have our condition or pods that make their keys.
func (c *Controller) gatherUnnamed(s signer.Situation) signer.Situation {
	s.Asking, s.Owning = c.services.naming(s.Key.Namespace, namesNone), nil
	c.gatherKept(&s)
	return s
}

// gatherKept collects what the Services say now, and the other Secrets that they own.
func (c *Controller) gatherKept(s *signer.Situation) {
	s.Kept = map[types.UID][]string{}
	for _, services := range [][]*corev1.Service{s.Asking, s.Owning} {
		for i, svc := range services {
			services[i] = c.current(svc, s.Now)
			for _, f := range c.ownedBy(svc) {
				if f.Name != s.Key.Name {
					s.Kept[svc.UID] = append(s.Kept[svc.UID], f.Name)
				}
			}
			slices.Sort(s.Kept[svc.UID])
		}
	}
}

// secret returns the facts of the Secret: what this process wrote, if the cache
// has not seen it yet, else what the cache holds.
func (c *Controller) secret(key types.NamespacedName, now time.Time) *signer.SecretFacts {
	cached := c.secrets.Get(key)
	var seen string
	if cached != nil {
		seen = cached.ResourceVersion
	}
	ours, behind := c.wroteSecret.Newer(key, seen, now)
	switch {
	case behind:
		return ours
	case cached != nil && ours != nil && cached.Leaf.Fingerprint == ours.Leaf.Fingerprint:
		cached.TakeVerification(ours)
	}
	return cached
}

// read returns the facts of the Secret as the API server has it now, nil if it does not exist.
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

// stated is what a Service says of its certificate.
type stated struct {
	ready       *state.Condition  // nil: none
	annotations map[string]string // as signer.ServiceAnnotations
}

func statedBy(svc *corev1.Service) stated {
	return stated{state.Of(svc, api.ConditionReady), signer.ServiceAnnotations(svc)}
}

// current returns the Service of the cache with what it says now: what this process
// wrote, if the cache has not seen it yet.
func (c *Controller) current(svc *corev1.Service, now time.Time) *corev1.Service {
	ours, behind := c.wroteStatus.Newer(client.ObjectKeyFromObject(svc), svc.ResourceVersion, now)
	if !behind {
		return svc
	}
	out := *svc
	out.Status.Conditions = ours.ready.Both()
	out.Annotations = maps.Clone(svc.Annotations)
	for key := range signer.ServiceAnnotations(svc) {
		delete(out.Annotations, key)
	}
	for key, value := range ours.annotations {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
	}
	return &out
}

// ownedBy returns the managed Secrets that the Service owns.
func (c *Controller) ownedBy(svc client.Object) []*signer.SecretFacts {
	return c.secrets.ByIndex(byOwner, string(svc.GetUID()))
}
