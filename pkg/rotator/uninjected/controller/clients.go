package controller

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxServices is how many Services of other namespaces are remembered of a namespace. A change of one of the others is
// noticed when the namespace is looked at for another reason.
const maxServices = 4096

// clients has the namespaces whose pods connect to Services of others, so that a change of a Service is a reason to look
// at these namespaces alone.
type clients struct {
	mu sync.Mutex
	// services are those of other namespaces by the namespace of the pods. of has the reverse: the namespaces of the
	// pods, by namespace and name of the Service.
	services map[string]map[types.NamespacedName]bool
	of       map[string]map[string]map[string]bool
}

func newClients() *clients {
	return &clients{services: map[string]map[types.NamespacedName]bool{}, of: map[string]map[string]map[string]bool{}}
}

// add remembers that the decision about a namespace rests on the Service, which need not exist.
func (c *clients) add(namespace string, id types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.services[namespace]) >= maxServices {
		return
	}
	inner(c.services, namespace)[id] = true
	inner(inner(c.of, id.Namespace), id.Name)[namespace] = true
}

// inner returns the inner map of a key.
func inner[K, L comparable, V any](of map[K]map[L]V, key K) map[L]V {
	if of[key] == nil {
		of[key] = map[L]V{}
	}
	return of[key]
}

// keep forgets all Services of a namespace but those.
func (c *clients) keep(namespace string, services map[types.NamespacedName]*corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.services[namespace] {
		if _, is := services[id]; is {
			continue
		}
		delete(c.services[namespace], id)
		if delete(c.of[id.Namespace][id.Name], namespace); len(c.of[id.Namespace][id.Name]) == 0 {
			delete(c.of[id.Namespace], id.Name)
		}
		if len(c.of[id.Namespace]) == 0 {
			delete(c.of, id.Namespace)
		}
	}
	if len(c.services[namespace]) == 0 {
		delete(c.services, namespace)
	}
}

// ofService returns the namespaces whose pods connect to the Service.
func (c *clients) ofService(id types.NamespacedName) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.of[id.Namespace][id.Name]))
}

// ofNamespace returns the namespaces whose pods connect to Services of the namespace, each once.
func (c *clients) ofNamespace(namespace string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]bool{}
	for _, namespaces := range c.of[namespace] {
		maps.Copy(all, namespaces)
	}
	return slices.Collect(maps.Keys(all))
}

// elsewhere reads Services of other namespaces for one decision.
type elsewhere struct {
	read  func(context.Context, types.NamespacedName) *corev1.Service
	known map[types.NamespacedName]*corev1.Service
}

// service is uninjected.Place.Elsewhere for a namespace. The Service is remembered before it is read: a change is either
// in what is read, or a reason to decide again.
func (e *elsewhere) service(ctx context.Context, namespace string, c *clients) func(namespace, name string) *corev1.Service {
	return func(of, name string) *corev1.Service {
		id := types.NamespacedName{Namespace: of, Name: name}
		if svc, known := e.known[id]; known {
			return svc
		}
		if len(e.known) == maxServices {
			return e.read(ctx, id)
		}
		c.add(namespace, id)
		e.known[id] = e.read(ctx, id)
		return e.known[id]
	}
}
