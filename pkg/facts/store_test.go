package facts

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

type metadata = *metav1.PartialObjectMetadata

// newTestStore keeps of a Secret its labels, each of which it finds it by.
func newTestStore() *store[*corev1.Secret, metadata] {
	return &store[*corev1.Secret, metadata]{
		derive: func(s *corev1.Secret) metadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion, Finalizers: slices.Sorted(maps.Keys(s.Labels))}}
		},
		items:   map[name]metadata{},
		indices: map[string]*index[metadata]{"label": newIndex(func(m metadata) []string { return m.Finalizers })},
	}
}

func labelled(key types.NamespacedName, version int, labels ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "uid", ResourceVersion: strconv.Itoa(version), Labels: map[string]string{}}}
	for _, l := range labels {
		s.Labels[l] = ""
	}
	return s
}

// TestStoreIsWhatItWasTold: after any changes the store, its index and what its handlers were
// told are as a map would have it.
func TestStoreIsWhatItWasTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, version := newTestStore(), 0
		want := map[types.NamespacedName]*corev1.Secret{}
		told := map[types.NamespacedName]metadata{} // by a handler from the beginning
		count := 0
		s.handle(func(before, after metadata, _ bool) {
			count++
			object := after
			if object == nil {
				object = before
			}
			key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
			if before != nil && after != nil || after == nil {
				require.Contains(t, told, key)
			} else {
				require.NotContains(t, told, key)
			}
			delete(told, key)
			if after != nil {
				told[key] = after
				require.Same(t, after, s.get(key), "the store is as the handler is told")
			}
		})
		draw := func() *corev1.Secret {
			key := types.NamespacedName{Namespace: rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace"), Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
			version++
			return labelled(key, version, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, "labels")...)
		}
		keyOf := func(o *corev1.Secret) types.NamespacedName {
			return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":    func(*rapid.T) { o := draw(); require.NoError(t, s.Add(o)); want[keyOf(o)] = o },
			"update": func(*rapid.T) { o := draw(); require.NoError(t, s.Update(o)); want[keyOf(o)] = o },
			"again": func(*rapid.T) {
				for _, o := range want {
					before := count
					require.NoError(t, s.Update(o))
					require.Equal(t, before, count, "nothing has changed")
				}
			},
			"delete": func(*rapid.T) { o := draw(); require.NoError(t, s.Delete(o)); delete(want, keyOf(o)) },
			"replace": func(t *rapid.T) {
				var list []any
				clear(want)
				for range rapid.IntRange(0, 4).Draw(t, "listed") {
					o := draw()
					want[keyOf(o)] = o
				}
				for _, o := range want {
					object, err := s.Transformer()(o)
					require.NoError(t, err)
					list = append(list, rapid.SampledFrom([]any{o, object}).Draw(t, "as it was listed"))
				}
				require.NoError(t, s.Replace(list, ""))
				require.True(t, s.hasSynced())
			},
			"": func(t *rapid.T) {
				require.Len(t, s.keys(metav1.NamespaceAll), len(want))
				byNamespace := map[string][]types.NamespacedName{}
				for key := range want {
					byNamespace[key.Namespace] = append(byNamespace[key.Namespace], key)
				}
				for _, namespace := range []string{"shop", "bank", "elsewhere"} {
					require.ElementsMatch(t, byNamespace[namespace], s.keys(namespace))
				}
				require.Len(t, told, len(want))
				byLabel := map[string][]string{}
				for key, o := range want {
					facts := s.derive(o)
					require.Equal(t, facts, s.get(key))
					require.Equal(t, facts, told[key])
					for l := range o.Labels {
						byLabel[l] = append(byLabel[l], key.String())
					}
				}
				for _, l := range []string{"x", "y", "z"} {
					var found []string
					for _, key := range s.found("label", l, 10) {
						found = append(found, key.String())
					}
					require.ElementsMatch(t, byLabel[l], found)
				}
				late := 0
				handlers := s.handlers
				s.handle(func(before, after metadata, _ bool) {
					require.Nil(t, before)
					require.Contains(t, want, types.NamespacedName{Namespace: after.Namespace, Name: after.Name})
					late++
				})
				require.Equal(t, len(want), late, "a handler that comes late")
				s.handlers = handlers
			},
		})
		// Nothing is left of what was there.
		require.NoError(t, s.Replace(nil, ""))
		require.Empty(t, s.items)
		require.Empty(t, told)
		require.Empty(t, s.indices["label"].one)
		require.Empty(t, s.indices["label"].more)
	})
}

// TestStoreTellsTheVersionOfADeletion: by it a write before is told from one after.
func TestStoreTellsTheVersionOfADeletion(t *testing.T) {
	s := newTestStore()
	var versions []string
	s.handle(func(before, after metadata, _ bool) {
		if after == nil {
			versions = append(versions, before.ResourceVersion)
		}
	})
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	require.NoError(t, s.Add(labelled(key, 3)))
	require.NoError(t, s.Delete(labelled(key, 7)))
	require.NoError(t, s.Delete(labelled(key, 8)))
	require.NoError(t, s.Add(labelled(key, 9)))
	require.NoError(t, s.Replace(nil, "12"))
	assert.Equal(t, []string{"7", "9"}, versions, "each once; of a deletion that was missed the last that is known")
}

// TestAnObjectThatWasMadeAgainIsAnother, even if a store of another cluster counts from 1.
func TestAnObjectThatWasMadeAgainIsAnother(t *testing.T) {
	s, told := newTestStore(), 0
	s.handle(func(_, _ metadata, _ bool) { told++ })
	first, again := labelled(types.NamespacedName{Name: "web"}, 1), labelled(types.NamespacedName{Name: "web"}, 1)
	again.UID = "another"
	require.NoError(t, s.Add(first))
	require.NoError(t, s.Replace([]any{again}, ""))
	assert.Equal(t, 2, told)
}

// TestStoreRefusesOtherObjects: an error, which the reflector logs, and no panic.
func TestStoreRefusesOtherObjects(t *testing.T) {
	s := newTestStore()
	for name, err := range map[string]error{
		"added": s.Add(&corev1.Pod{}), "updated": s.Update("text"), "deleted": s.Delete(toolscache.DeletedFinalStateUnknown{}), "listed": s.Replace([]any{1}, ""),
	} {
		assert.ErrorContains(t, err, "unexpected", name)
	}
	assert.False(t, s.hasSynced())
	assert.NoError(t, s.Resync())
	assert.Panics(t, func() { s.found("unknown", "x", 10) })
}
