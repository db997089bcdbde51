package facts

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// index finds objects by values that follow from their facts. Of most values there is one
// object; only of the others there is a set.
type index[T Object] struct {
	values func(T) []string
	one    map[string]name
	more   map[string]map[name]struct{} // beside the one
}

func newIndex[T Object](values func(T) []string) *index[T] {
	return &index[T]{values, map[string]name{}, map[string]map[name]struct{}{}}
}

// change brings the index from what the facts of the object were to what they are; both may
// be the zero T.
func (x *index[T]) change(key name, before, after T) {
	var none T
	var had, has []string
	if before != none {
		had = x.values(before)
	}
	if after != none {
		has = x.values(after)
	}
	for _, value := range had {
		if !slices.Contains(has, value) {
			x.remove(value, key)
		}
	}
	for _, value := range has {
		x.add(value, key)
	}
}

func (x *index[T]) add(value string, key name) {
	switch one, there := x.one[value]; {
	case one == key && there:
	case !there:
		x.one[value] = key
	default:
		if x.more[value] == nil {
			x.more[value] = map[name]struct{}{}
		}
		x.more[value][key] = struct{}{}
	}
}

func (x *index[T]) remove(value string, key name) {
	more := x.more[value]
	if x.one[value] != key {
		delete(more, key)
	} else {
		delete(x.one, value)
		for next := range more {
			delete(more, next)
			x.one[value] = next
			break
		}
	}
	if len(more) == 0 {
		delete(x.more, value)
	}
}

// find returns the keys of the objects with the value, in no order: not more than most of them.
func (x *index[T]) find(value string, most int) []types.NamespacedName {
	one, there := x.one[value]
	if !there {
		return nil
	}
	keys := append(make([]types.NamespacedName, 0, min(1+len(x.more[value]), most)), one.key())
	for key := range x.more[value] {
		if len(keys) >= most {
			break
		}
		keys = append(keys, key.key())
	}
	return keys
}
