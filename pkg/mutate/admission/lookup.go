package admission

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate"
)

// liveTimeout bounds one read of the API server. A request may have to wait for
// one that runs and then for its own, and the API server waits 5 s for us.
const liveTimeout = 2 * time.Second

// asksIndex finds the Services of a namespace that ask for a Secret: of
// thousands, the webhook looks at those.
const asksIndex = "asks"

// Lookup knows the Services and the conventional Secrets of a cluster, from
// informers and, when those do not settle a case, from the API server.
type Lookup struct {
	cached    client.Reader
	live      client.Reader
	synced    func() bool
	shared    *sharedRead[mutate.Known]
	openShift bool
}

// NewLookup returns a Lookup that reads from cached once synced says so, and
// from live when asked to. cached must have the options of [CacheOptions], with
// the same openShift, and have been given to [StartInformers]. openShift: Services
// may ask in OpenShift's words too.
func NewLookup(cached, live client.Reader, synced func() bool, openShift bool) *Lookup {
	l := &Lookup{cached: cached, live: live, synced: synced, openShift: openShift}
	l.shared = newSharedRead(liveTimeout, l.read)
	return l
}

// CacheOptions makes the informers hold no more than is needed: Services
// stripped to what [Choose] reads, and of Secrets the metadata of those with the
// conventional name and type.
func CacheOptions(openShift bool) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Service{}: {Transform: facts.ServiceTransform(openShift, keptOfService)},
		secretMetadata():  {Field: fields.SelectorFromSet(conventional), Transform: facts.KeepIdentity},
	}}
}

// conventional selects the conventional Secrets. A name alone in the selector is
// what RBAC resourceNames permits.
var conventional = fields.Set{"metadata.name": api.ConventionalSecretName, "type": string(corev1.SecretTypeTLS)}

func secretMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
}

// StartInformers makes c watch what a Lookup reads, before the first request
// asks for it, and indexes it.
func StartInformers(ctx context.Context, c cache.Cache) error {
	err := c.IndexField(ctx, &corev1.Service{}, asksIndex, func(o client.Object) []string {
		if _, ok := api.Wants(o.(*corev1.Service)); ok {
			return []string{"true"}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index Services: %w", err)
	}
	for _, o := range []client.Object{&corev1.Service{}, secretMetadata()} {
		if _, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	return nil
}

// keptOfService keeps of a Service what mutate.Choose reads, and of one that asks
// for nothing its identity.
func keptOfService(svc *corev1.Service) api.Keep {
	if _, asks := api.Wants(svc); !asks {
		return api.Keep{}
	}
	keep := api.Keep{
		CreationTimestamp: true, Selector: true, Ports: true, Type: true, ClusterIP: true,
		Annotations: []string{api.TranslatedFrom},
	}
	for key := range svc.Annotations {
		if strings.HasPrefix(key, api.Domain+"/") {
			keep.Annotations = append(keep.Annotations, key)
		}
	}
	if c := api.Condition(svc, api.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		keep.Conditions = []string{api.ConditionReady}
	}
	return keep
}

// Cached returns what the informers know of the namespace, or false as long as
// they are not synced. What it returns must not be changed.
func (l *Lookup) Cached(ctx context.Context, namespace string) (mutate.Known, bool) {
	if !l.synced() {
		return mutate.Known{}, false
	}
	var services corev1.ServiceList
	err := l.cached.List(ctx, &services, client.InNamespace(namespace), client.MatchingFields{asksIndex: "true"}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return mutate.Known{}, false // the API server will tell
	}
	known := l.knownServices(&services)
	known.ConventionalSecret = l.cachedSecret(ctx, namespace)
	return known, true
}

func (l *Lookup) cachedSecret(ctx context.Context, namespace string) bool {
	key := client.ObjectKey{Namespace: namespace, Name: api.ConventionalSecretName}
	return l.cached.Get(ctx, key, secretMetadata()) == nil
}

// Live returns what the API server knows of the namespace, by a read that starts
// after the call and that is shared with all other calls that wait for it.
func (l *Lookup) Live(ctx context.Context, namespace string) (mutate.Known, error) {
	return l.shared.get(ctx, namespace)
}

// read asks the API server for both at once. A Secret that the informer holds is
// not asked for again.
func (l *Lookup) read(ctx context.Context, namespace string) (mutate.Known, error) {
	var (
		services corev1.ServiceList
		secrets  metav1.PartialObjectMetadataList
		hasOne   = l.synced() && l.cachedSecret(ctx, namespace)
	)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := l.live.List(ctx, &services, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list Services of namespace %q: %w", namespace, err)
		}
		return nil
	})
	if !hasOne {
		group.Go(func() error {
			secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
			err := l.live.List(ctx, &secrets, client.InNamespace(namespace), client.MatchingFields(conventional))
			if err != nil {
				return fmt.Errorf("look for Secret %q of namespace %q: %w", api.ConventionalSecretName, namespace, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return mutate.Known{}, err
	}
	known := l.knownServices(&services)
	known.ConventionalSecret = hasOne || len(secrets.Items) > 0
	return known, nil
}

func (l *Lookup) knownServices(list *corev1.ServiceList) mutate.Known {
	known := mutate.Known{Services: make([]*corev1.Service, 0, len(list.Items))}
	for i := range list.Items {
		svc := &list.Items[i]
		if l.openShift {
			svc = api.Translate(svc)
		}
		if _, ok := api.Wants(svc); ok {
			known.Services = append(known.Services, svc)
		}
	}
	return known
}
