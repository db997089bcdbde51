package target

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/trust"
)

// Target is one object that is requested to hold the bundle, as the caches have it.
type Target struct {
	Key     types.NamespacedName
	Object  client.Object // without a resourceVersion: it does not exist yet
	Problem string        // why the request cannot be followed
	// Created is when the object was created, or, where the request is that of the
	// namespace, the namespace. Only List sets it.
	Created time.Time
}

// Exists reports whether the object is there.
func (t Target) Exists() bool { return t.Object != nil && t.Object.GetResourceVersion() != "" }

// Owned reports whether FieldManager owns a field of the object.
func (t Target) Owned() bool { return t.Exists() && trust.IsOwned(t.Object) }

// finder finds the targets of one kind.
type finder interface {
	// reads returns the types of object that are listed and watched, stripped by
	// strip.
	reads(strip func(client.Object)) []Read
	// Watches returns the sources of events that a target must be looked at for.
	Watches(c cache.Cache) []source.Source
	// Get returns the target at key, and whether something requests the bundle
	// there. If not, the object may be nil. It is a copy of the cache's.
	Get(ctx context.Context, r client.Reader, key types.NamespacedName) (Target, bool, error)
	// List returns all targets. Their objects share memory with the cache's and must not be
	// changed.
	List(ctx context.Context, r client.Reader) ([]Target, error)
}

// Read is a type of object that is listed and watched.
type Read struct {
	Object client.Object // an empty one
	By     cache.ByObject
	Index  client.IndexerFunc // of IndexRequested; nil for none
}

// ByName selects one object, so that RBAC can be narrowed to its name.
func ByName(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }

// IndexRequested finds the objects that request the bundle, under indexYes.
const (
	IndexRequested = "servingcert.requested"
	indexYes       = "yes"
)

// annotated finds the objects of one type whose annotation requests the bundle.
// Annotations cannot be selected by, so that all objects of the type are
// watched, stripped.
type annotated struct {
	object    client.Object     // an empty one
	items     client.ObjectList // an empty list of them
	openShift bool
}

func (f annotated) reads(strip func(client.Object)) []Read {
	index := func(obj client.Object) []string {
		if trust.RequestOf(obj, f.openShift).Requested {
			return []string{indexYes}
		}
		return nil
	}
	return []Read{{Object: f.object, By: cache.ByObject{Transform: Transform(strip)}, Index: index}}
}

// Watches ignores objects that neither request the bundle nor did before.
func (f annotated) Watches(c cache.Cache) []source.Source {
	concerned := func(obj client.Object) bool { return trust.RequestOf(obj, f.openShift).Requested || trust.IsOwned(obj) }
	return []source.Source{source.Kind(c, f.object, &handler.EnqueueRequestForObject{}, predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return concerned(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return concerned(e.ObjectOld) || concerned(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return concerned(e.Object) },
	})}
}

func (f annotated) Get(ctx context.Context, r client.Reader, key types.NamespacedName) (Target, bool, error) {
	obj := f.object.DeepCopyObject().(client.Object)
	if err := r.Get(ctx, key, obj); err != nil {
		return Target{}, false, client.IgnoreNotFound(err)
	}
	a := trust.RequestOf(obj, f.openShift)
	return Target{Key: key, Object: obj, Problem: a.Problem}, a.Requested, nil
}

func (f annotated) List(ctx context.Context, r client.Reader) ([]Target, error) {
	list := f.items.DeepCopyObject().(client.ObjectList)
	if err := r.List(ctx, list, client.MatchingFields{IndexRequested: indexYes}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var targets []Target
	err := meta.EachListItem(list, func(o runtime.Object) error {
		obj := o.(client.Object)
		targets = append(targets, Target{Key: client.ObjectKeyFromObject(obj), Object: obj,
			Problem: trust.RequestOf(obj, f.openShift).Problem, Created: obj.GetCreationTimestamp().Time})
		return nil
	})
	return targets, err
}

// single finds one object of a fixed name, in no namespace, whether it exists or
// not.
type single struct {
	object client.Object // an empty one
	name   string
}

func (f single) reads(strip func(client.Object)) []Read {
	return []Read{{Object: f.object, By: cache.ByObject{Field: ByName(f.name), Transform: Transform(strip)}}}
}

// Watches sends no event for an object that does not exist: the source of the bundle
// does.
func (f single) Watches(c cache.Cache) []source.Source {
	return []source.Source{source.Kind(c, f.object, &handler.EnqueueRequestForObject{})}
}

func (f single) Get(ctx context.Context, r client.Reader, key types.NamespacedName) (Target, bool, error) {
	obj := f.object.DeepCopyObject().(client.Object)
	err := r.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		obj = f.object.DeepCopyObject().(client.Object)
		obj.SetName(f.name)
		err = nil
	}
	return Target{Key: key, Object: obj}, true, err
}

func (f single) List(ctx context.Context, r client.Reader) ([]Target, error) {
	t, _, err := f.Get(ctx, r, types.NamespacedName{Name: f.name})
	return []Target{t}, err
}
