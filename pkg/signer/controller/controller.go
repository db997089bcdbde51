// Package signer gives every Service that asks for it a Secret with a serving
// certificate, and keeps it good: issued, healed, renewed, and told of in the
// Service's Ready condition.
//
// The unit of work is a Secret, since several Services may share one. Each
// reconcile gathers a [Situation] from the caches, has [Decide] say what
// follows and why, and acts: at most one write to the Secret, then one to the
// status of each Service whose condition changes.
package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// Controller issues certificates. Setup makes it.
type Controller struct {
	config   Config
	client   client.Client // writes
	live     client.Reader // the API server itself
	services serviceReader
	secrets  *secretCache
	events   events.EventRecorder
	metrics  *metrics

	wroteSecret *written[*signer.SecretFacts]
	wroteStatus *written[told]
	// known is the CA as it was when last there was one.
	known atomic.Pointer[pki.Authority]
}

// Retries of what failed: quickly at first, since most failures are a write
// that came second, and never less than once a minute.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// Setup makes the controller and adds it to the manager, whose cache must have
// been made with CacheOptions.
func Setup(ctx context.Context, mgr manager.Manager, cfg Config) (*Controller, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	secrets, err := managedSecrets(mgr, cfg.Instance)
	if err != nil {
		return nil, err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Service{}, bySecret, indexService); err != nil {
		return nil, fmt.Errorf("index Services: %w", err)
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	c := &Controller{
		config:      cfg,
		client:      mgr.GetClient(),
		live:        mgr.GetAPIReader(),
		services:    serviceReader{mgr.GetCache()},
		secrets:     secrets,
		events:      mgr.GetEventRecorder("servingcert-signer"),
		metrics:     metrics,
		wroteSecret: newWritten[*signer.SecretFacts](),
		wroteStatus: newWritten[told](),
	}
	if err := cfg.Registerer.Register(newExpiry(c)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if cfg.Namespace != "" {
		if err := addConventional(mgr, cfg.Namespace); err != nil {
			return nil, err
		}
	}
	return c, c.watch(mgr)
}

// managedSecrets starts a cache of our Secrets with the manager. It speaks
// protobuf, of which a Secret is half as long as of JSON.
func managedSecrets(mgr manager.Manager, instance string) (*secretCache, error) {
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	core, err := corev1client.NewForConfigAndClient(cfg, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("client for Secrets: %w", err)
	}
	secrets, err := newSecretCache(core.RESTClient(), instance)
	if err != nil {
		return nil, fmt.Errorf("cache of Secrets: %w", err)
	}
	return secrets, mgr.Add(secrets)
}

func (c *Controller) watch(mgr manager.Manager) error {
	ctrl, err := controller.New("signer", mgr, controller.Options{
		Reconciler:              c,
		MaxConcurrentReconciles: c.config.Workers,
		RateLimiter:             newRetries(firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	for _, s := range c.sources(mgr) {
		if err := ctrl.Watch(s); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

// Reconcile brings one Secret, and the conditions of the Services that have a
// part in it, to what they should be.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if request.Name == "" { // see requestsOf
		if err := c.tidy(ctx, request.Namespace); err != nil {
			return reconcile.Result{}, err
		}
	}
	s, err := c.gather(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := signer.Decide(s)
	if d.Action == signer.Look {
		return c.lookAndAct(ctx, s)
	}
	result, err := c.act(ctx, s, d)
	if errors.Is(err, errSomethingThere) {
		return c.lookAndAct(ctx, s)
	}
	return result, err
}

// lookAndAct decides once more, with what the API server itself says is there.
func (c *Controller) lookAndAct(ctx context.Context, s signer.Situation) (reconcile.Result, error) {
	var secret corev1.Secret
	err := c.live.Get(ctx, s.Key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		s.Secret, s.Obstacle = nil, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read Secret %s: %w", s.Key, err)
	default:
		s.Secret, s.Obstacle = signer.FactsOf(&secret, c.config.Instance), nil
	}
	return c.act(ctx, s, signer.Decide(s))
}

// gather collects the situation from the caches.
func (c *Controller) gather(ctx context.Context, key types.NamespacedName) (signer.Situation, error) {
	s := signer.Situation{Now: c.config.Clock(), Key: key, Limits: c.config.Limits, OpenShift: c.config.OpenShift}
	if s.Authority, s.AuthorityErr = c.config.Authority(); s.AuthorityErr == nil {
		c.known.Store(s.Authority)
	}
	if known := c.known.Load(); known != nil {
		s.Limits.FormerDomains = known.FormerDomains
	}
	namespace, obstacle := metadataOf(namespaceKind), metadataOf(secretKind)
	switch err := c.services.Get(ctx, types.NamespacedName{Name: key.Namespace}, namespace); {
	case err == nil:
		s.OptedIn, s.Terminating = true, namespace.DeletionTimestamp != nil
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("get Namespace %s: %w", key.Namespace, err)
	}

	s.Secret = c.secret(key, s.Now)
	if s.Secret == nil {
		switch err := c.services.Get(ctx, key, obstacle); {
		case err == nil:
			s.Obstacle = &obstacle.ObjectMeta
		case !apierrors.IsNotFound(err):
			return s, fmt.Errorf("get metadata of Secret %s: %w", key, err)
		}
	}
	known := s.Secret
	if known == nil {
		known = &signer.SecretFacts{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	}
	var err error
	if s.Asking, s.Owning, err = c.services.partIn(ctx, known); err != nil {
		return s, err
	}
	s.Kept = map[types.UID][]string{}
	for _, svc := range s.Asking {
		for _, f := range c.secrets.ownedBy(svc.UID) {
			if f.Name != key.Name {
				s.Kept[svc.UID] = append(s.Kept[svc.UID], f.Name)
			}
		}
	}
	return s, nil
}

// secret returns the facts of the Secret: what this process wrote, if the cache
// has not seen it yet, else what the cache holds.
func (c *Controller) secret(key types.NamespacedName, now time.Time) *signer.SecretFacts {
	cached := c.secrets.get(key)
	var seen string
	if cached != nil {
		seen = cached.ResourceVersion
	}
	ours, behind := c.wroteSecret.newer(key, seen, now)
	switch {
	case behind:
		return ours
	case cached != nil && ours != nil && cached.Leaf.Fingerprint == ours.Leaf.Fingerprint:
		cached.TakeVerification(ours)
	}
	return cached
}

// tidy takes our condition from the Services of a namespace that ask for
// nothing and have nothing of ours.
func (c *Controller) tidy(ctx context.Context, namespace string) error {
	services, err := c.services.indexed(ctx, namespace, asksNothing)
	if err != nil {
		return err
	}
	var errs []error
	for _, svc := range services {
		if len(c.secrets.ownedBy(svc.UID)) == 0 {
			_, err := c.setCondition(ctx, signer.ConditionChange{Service: svc}, c.told(svc, c.config.Clock()), nil)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sources are what the controller watches.
func (c *Controller) sources(mgr manager.Manager) []source.Source {
	return []source.Source{
		source.Kind[client.Object](mgr.GetCache(), &corev1.Service{}, c.serviceHandler()),
		source.Kind[client.Object](mgr.GetCache(), metadataOf(namespaceKind), c.namespaceHandler()),
		source.Kind[client.Object](mgr.GetCache(), metadataOf(secretKind), obstacleHandler()),
		&secretSource{c},
		source.Func(c.watchAuthority),
	}
}

// nameOf returns the Secret that a Service is filed under: what it names, or
// the empty name if it names none and has our condition.
func nameOf(svc *corev1.Service) (name string, ok bool) {
	if name, asks := api.Wants(svc); asks {
		return name, true
	}
	return "", api.Condition(svc, api.ConditionReady) != nil
}
