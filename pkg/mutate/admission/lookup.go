package admission

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// liveTimeout bounds one read from the API server. A review may have to wait for a
// read that is running and then for its own, and the API server waits 5 s for us.
const liveTimeout = 2 * time.Second

// asksIndex finds the Services of a namespace that ask for a certificate: the webhook looks
// only at those.
const asksIndex = "asks"

// Lookup finds what the decision about a pod rests on: the Services of its namespace, the
// namespace's settings, and whether it has the conventional Secret, from informers or by a
// read from the API server.
type Lookup struct {
	cached client.Reader
	live   client.Reader
	synced func() bool
	shared *sharedRead[choose.Known]
	strip  func(*corev1.Service) *corev1.Service
}

// NewLookup returns a Lookup whose Cached reads from cached, once synced returns true,
// and whose Live reads from live. cached must have the options of [CacheOptions], with
// the same openShift, and must have been passed to [StartInformers]. With openShift,
// Services may ask with OpenShift's annotations too.
func NewLookup(cached, live client.Reader, synced func() bool, openShift bool) *Lookup {
	l := &Lookup{cached: cached, live: live, synced: synced, strip: facts.StrippedService(openShift, keptOfService)}
	l.shared = newSharedRead(liveTimeout, l.read)
	return l
}

// CacheOptions returns the options of a cache that holds no more than is needed: of
// Services what [choose.Secret] reads, of Secrets the identity of the conventional
// ones, of opted-in namespaces their settings, and the operator's table
// of programs, which is in namespace.
func CacheOptions(namespace string, openShift bool) cache.Options {
	return facts.Paged(cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Service{}:           {Transform: facts.ServiceTransform(openShift, keptOfService)},
		facts.Metadata("Secret"):    {Field: fields.SelectorFromSet(conventional), Label: notManaged, Transform: facts.KeepIdentity},
		facts.Metadata("Namespace"): {Label: optedIn, Transform: keepSettings},
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", api.ProgramsName)},
		}},
	}})
}

// conventional and notManaged together select the conventional Secrets; see
// api.IsConventional. RBAC with resourceNames permits a list only if the field selector
// has the name.
var (
	conventional = fields.Set{"metadata.name": api.ConventionalSecretName, "type": string(corev1.SecretTypeTLS)}
	notManaged   = api.NotManaged()
)

// StartInformers makes c watch and index what a Lookup reads, before the first review
// needs it.
func StartInformers(ctx context.Context, c cache.Cache) error {
	err := c.IndexField(ctx, &corev1.Service{}, asksIndex, func(o client.Object) []string {
		if api.Asks(o.(*corev1.Service)) {
			return []string{"true"}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index Services: %w", err)
	}
	for _, o := range []client.Object{&corev1.Service{}, facts.Metadata("Secret"), facts.Metadata("Namespace")} {
		if _, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	return nil
}

// serviceKeys are the annotations that mean something on a Service.
var serviceKeys = api.OnService.Annotations()

// keptOfService keeps of a Service what choose.Secret reads, and only the identity of
// a Service that asks for nothing.
func keptOfService(svc *corev1.Service) api.Keep {
	if !api.Asks(svc) {
		return api.Keep{}
	}
	keep := api.Keep{
		CreationTimestamp: true, Selector: true, Ports: true, Type: true, ClusterIP: true, ClusterIPs: true,
		OpenShiftAnnotation: true,
	}
	for _, key := range serviceKeys {
		if _, has := svc.Annotations[key]; has {
			keep.Annotations = append(keep.Annotations, key)
		}
	}
	if c := api.Condition(svc, api.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		keep.Conditions = append(keep.Conditions, api.ConditionReady)
	}
	return keep
}

// Cached returns what the informers know of the namespace, or false if they have not
// synced. The caller must not change what it returns.
func (l *Lookup) Cached(ctx context.Context, namespace string) (choose.Known, bool) {
	if !l.synced() {
		return choose.Known{}, false
	}
	var services corev1.ServiceList
	err := l.cached.List(ctx, &services, client.InNamespace(namespace), client.MatchingFields{asksIndex: "true"}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return choose.Known{}, false // the API server is asked instead
	}
	annotations, ok := l.cachedNamespace(ctx, namespace)
	if !ok {
		return choose.Known{}, false
	}
	known := knownServices(&services)
	known.ConventionalSecret = l.cachedSecret(ctx, namespace)
	known.Namespace = annotations
	return known, true
}

// Elsewhere returns a Service of an opted-in namespace that requests a certificate, or nil if the informers know none.
// The caller must not change it.
func (l *Lookup) Elsewhere(ctx context.Context, namespace, name string) *corev1.Service {
	svc := &corev1.Service{}
	_, optedIn := l.cachedNamespace(ctx, namespace)
	if optedIn && l.synced() && l.cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, svc, client.UnsafeDisableDeepCopy) == nil && api.Asks(svc) {
		return svc
	}
	return nil
}

func (l *Lookup) cachedSecret(ctx context.Context, namespace string) bool {
	key := client.ObjectKey{Namespace: namespace, Name: api.ConventionalSecretName}
	return l.cached.Get(ctx, key, facts.Metadata("Secret")) == nil
}

// Live returns what the API server knows of the namespace, by a read that starts
// after the call and that is shared with all other calls that wait for it.
func (l *Lookup) Live(ctx context.Context, namespace string) (choose.Known, error) {
	return l.shared.get(ctx, namespace)
}

// read asks the API server for all at once, but first for the namespace if the informers do
// not hold it: nothing is listed of one that is not opted in, which anyone can ask about. A
// Secret or a namespace that the informers hold is not asked for again.
func (l *Lookup) read(ctx context.Context, namespace string) (choose.Known, error) {
	var (
		services    []*corev1.Service
		secrets     metav1.PartialObjectMetadataList
		hasOne      = l.synced() && l.cachedSecret(ctx, namespace)
		annotations map[string]string
		hasSettings bool
	)
	if l.synced() {
		annotations, hasSettings = l.cachedNamespace(ctx, namespace)
	}
	if !hasSettings {
		var err error
		if annotations, err = l.liveNamespace(ctx, namespace); err != nil {
			return choose.Known{}, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		services, err = l.liveServices(ctx, namespace)
		return err
	})
	if !hasOne {
		group.Go(func() error {
			secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
			err := l.live.List(ctx, &secrets, client.InNamespace(namespace), client.MatchingFields(conventional), client.MatchingLabelsSelector{Selector: notManaged})
			if err != nil {
				return fmt.Errorf("look for Secret %q of namespace %q: %w", api.ConventionalSecretName, namespace, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return choose.Known{}, err
	}
	known := choose.Known{Services: services}
	known.ConventionalSecret = hasOne || len(secrets.Items) > 0
	known.Namespace = annotations
	return known, nil
}

// knownServices returns what is known of Services of the informers.
func knownServices(list *corev1.ServiceList) choose.Known {
	known := choose.Known{Services: make([]*corev1.Service, 0, len(list.Items))}
	for i := range list.Items {
		known.Services = append(known.Services, &list.Items[i])
	}
	return known
}

// liveServices lists the Services of the namespace that ask for a certificate, and keeps of each
// what the informers would, page by page.
func (l *Lookup) liveServices(ctx context.Context, namespace string) ([]*corev1.Service, error) {
	var asking []*corev1.Service
	err := facts.EachOf(ctx, l.live, &corev1.ServiceList{}, func(object runtime.Object) error {
		if svc := l.strip(object.(*corev1.Service)); api.Asks(svc) {
			asking = append(asking, svc)
		}
		return nil
	}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("list Services of namespace %q: %w", namespace, err)
	}
	return asking, nil
}
