package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
)

// Name is the reporting controller of events, and the field manager of the rotator's writes. Flux
// reverts the writes of managers whose name begins with "kubectl".
const Name = "servingcert-rotator"

// AddToScheme adds the types that the manager of New needs.
func AddToScheme(scheme *runtime.Scheme) error { return corev1.AddToScheme(scheme) }

// Cluster has what the rotator's controllers share.
type Cluster struct {
	Config
	Pods *Pods
	// Services is a cache of stripped Services and of the metadata of opted-in Namespaces.
	Services cache.Cache

	mgr  manager.Manager
	seen *facts.Seen // by the cache of Services
}

// New adds the caches to mgr.
func New(mgr manager.Manager, cfg Config) (*Cluster, error) {
	pods, err := facts.NewInformer(mgr, podOptions())
	if err != nil {
		return nil, fmt.Errorf("make the cache of pods: %w", err)
	}
	if err := mgr.Add(pods); err != nil {
		return nil, fmt.Errorf("add the cache of pods: %w", err)
	}
	c := &Cluster{Config: cfg, Pods: &Pods{pods}, mgr: mgr}
	if c.Services, err = c.cache(cacheOptions(cfg.OpenShift)); err != nil {
		return nil, err
	}
	c.seen, err = facts.SeenBy(context.Background(), c.Services, &corev1.Service{})
	return c, err
}

// ConfigMap adds a cache of the one ConfigMap of that name in the rotator's namespace.
func (c *Cluster) ConfigMap(name string) (cache.Cache, error) {
	return c.cache(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Namespaces: map[string]cache.Config{c.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", name)}},
	}}})
}

func (c *Cluster) cache(options cache.Options) (cache.Cache, error) {
	made, err := facts.NewCache(c.mgr, options)
	if err != nil {
		return nil, err
	}
	if err := c.mgr.Add(made); err != nil {
		return nil, fmt.Errorf("add a cache: %w", err)
	}
	return made, nil
}

// Recorder returns a recorder of events.
func (c *Cluster) Recorder() events.EventRecorder { return c.mgr.GetEventRecorder(Name) }

// AddController adds a controller. It runs on the leader.
func (c *Cluster) AddController(name string, options controller.Options, sources ...source.Source) error {
	if options.MaxConcurrentReconciles == 0 {
		options.MaxConcurrentReconciles = c.Workers
	}
	options.NewQueue = queue.ForWorkers(options.MaxConcurrentReconciles)
	return facts.AddController(c.mgr, name, options, sources...)
}
