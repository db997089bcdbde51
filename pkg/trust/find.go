package trust

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// place is one object that is asked to hold the bundle, as the caches know it.
type place struct {
	key     types.NamespacedName
	object  client.Object // without a resourceVersion: it does not exist yet
	problem string        // why what asks for the bundle cannot be followed
}

// exists reports whether the object is there.
func (p place) exists() bool { return p.object != nil && p.object.GetResourceVersion() != "" }

// judge says what the place holds. Pure.
func (p place) judge(kind Target, bundle Bundle) Judgement {
	switch {
	case p.problem != "":
		return Judgement{StateUnsuitable, ReasonAnnotation, p.problem}
	case !p.exists():
		return Judgement{StatePending, ReasonMissing, "the object does not exist"}
	}
	return kind.Judge(p.object, bundle.PEM)
}

// owned reports whether FieldManager owns a field of the object.
func (p place) owned() bool { return p.exists() && isOwned(p.object) }

func isOwned(obj client.Object) bool { return slices.ContainsFunc(obj.GetManagedFields(), isOurs) }

// finder finds the places of one kind.
type finder interface {
	// reads says which objects it reads and watches; strip is Target.Strip.
	reads(strip func(client.Object)) []read
	// watches returns what leads to a look at a place.
	watches(c cache.Cache) []source.Source
	// get returns the place at key, and whether something asks for the bundle
	// there. If not, the object may be nil. It is a copy of the cache's.
	get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error)
	// list returns all places.
	list(ctx context.Context, r client.Reader) ([]place, error)
}

// read is a type of object that is listed and watched.
type read struct {
	object client.Object // an empty one
	by     cache.ByObject
	index  client.IndexerFunc // of indexAsked; nil for none
	paged  bool               // there may be too many to be in memory before they are stripped
}

// indexAsked finds the objects that ask for the bundle, under indexYes.
const (
	indexAsked = "servingcert.asked"
	indexYes   = "yes"
)

// annotated finds the objects of one type whose annotation asks for the bundle.
// Annotations cannot be selected by, so that all objects of the type are
// watched, stripped.
type annotated struct {
	object client.Object     // an empty one
	items  client.ObjectList // an empty list of them
	words  words
}

func (f annotated) reads(strip func(client.Object)) []read {
	index := func(obj client.Object) []string {
		if f.words.of(obj).asked {
			return []string{indexYes}
		}
		return nil
	}
	return []read{{object: f.object, by: cache.ByObject{Transform: transform(strip)}, index: index, paged: true}}
}

// watches pass over objects that neither ask for the bundle nor did.
func (f annotated) watches(c cache.Cache) []source.Source {
	concerned := func(obj client.Object) bool { return f.words.of(obj).asked || isOwned(obj) }
	return []source.Source{source.Kind(c, f.object, &handler.EnqueueRequestForObject{}, predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return concerned(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return concerned(e.ObjectOld) || concerned(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return concerned(e.Object) },
	})}
}

func (f annotated) get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error) {
	obj := f.object.DeepCopyObject().(client.Object)
	if err := r.Get(ctx, key, obj); err != nil {
		return place{}, false, client.IgnoreNotFound(err)
	}
	a := f.words.of(obj)
	return place{key, obj, a.problem}, a.asked, nil
}

func (f annotated) list(ctx context.Context, r client.Reader) ([]place, error) {
	list := f.items.DeepCopyObject().(client.ObjectList)
	if err := r.List(ctx, list, client.MatchingFields{indexAsked: indexYes}); err != nil {
		return nil, err
	}
	var places []place
	err := meta.EachListItem(list, func(o runtime.Object) error {
		obj := o.(client.Object)
		places = append(places, place{client.ObjectKeyFromObject(obj), obj, f.words.of(obj).problem})
		return nil
	})
	return places, err
}

// single finds one object of a fixed name, in no namespace, whether it exists or
// not.
type single struct {
	object client.Object // an empty one
	name   string
}

func (f single) reads(strip func(client.Object)) []read {
	return []read{{object: f.object, by: cache.ByObject{Field: byName(f.name), Transform: transform(strip)}}}
}

// watches is silent about an object that is missing; the source is not.
func (f single) watches(c cache.Cache) []source.Source {
	return []source.Source{source.Kind(c, f.object, &handler.EnqueueRequestForObject{})}
}

func (f single) get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error) {
	obj := f.object.DeepCopyObject().(client.Object)
	err := r.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		obj = f.object.DeepCopyObject().(client.Object)
		obj.SetName(f.name)
		err = nil
	}
	return place{key: key, object: obj}, true, err
}

func (f single) list(ctx context.Context, r client.Reader) ([]place, error) {
	p, _, err := f.get(ctx, r, types.NamespacedName{Name: f.name})
	return []place{p}, err
}
