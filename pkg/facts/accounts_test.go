package facts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

// accounted is an object that needs so many bytes.
type accounted struct {
	*metav1.ObjectMeta
	size int64
}

func object(namespace, name string, created, size int64) accounted {
	m := &metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), ResourceVersion: fmt.Sprint(size), CreationTimestamp: metav1.Unix(created, 0)}
	return accounted{m, size}
}

func (a *Accounts) put(o accounted) bool { return a.Admit(o, func() int64 { return o.size }) }

// listed returns the names of the objects that are kept once they have been listed, as often as
// that is asked for.
func (a *Accounts) listed(t require.TestingT, objects []accounted) map[string]bool {
	kept := map[string]bool{}
	for range 3 {
		a.begin()
		clear(kept)
		for _, o := range objects {
			if a.put(o) {
				kept[string(o.UID)] = true
			}
			require.LessOrEqual(t, a.used, a.share.Cluster)
		}
		if !a.end() {
			break
		}
	}
	require.False(t, a.unsettled(), "nothing is to be listed any more")
	return kept
}

// The namespaces that need most keep less, and of each its oldest objects.
func TestWhoIsThereFirstIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []accounted
		without string
	}{
		"room for all": {[]accounted{object("a", "1", 1, 40), object("b", "1", 1, 40), object("c", "1", 1, 20)}, ""},
		"a namespace has half": {
			[]accounted{object("a", "old", 1, 30), object("a", "new", 3, 30), object("a", "mid", 2, 15), object("b", "x", 9, 10)}, "a/new",
		},
		"of the same second, by name": {[]accounted{object("a", "z", 1, 30), object("a", "y", 1, 30)}, "a/z"},
		"a small one after a large one that has no room": {
			[]accounted{object("a", "1", 1, 30), object("a", "2", 2, 30), object("a", "3", 3, 1)}, "a/2 a/3",
		},
		"an object without facts": {[]accounted{object("a", "1", 1, 50), object("a", "2", 2, 0)}, ""},
		"three large namespaces and a small one": {
			[]accounted{
				object("a", "1", 1, 20), object("a", "2", 2, 20), object("b", "1", 1, 20), object("b", "2", 2, 20), object("c", "1", 1, 20), object("c", "2", 2, 20),
				object("z", "1", 9, 10),
			}, "a/2 b/2 c/2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kept := NewAccounts("Thing", api.Share{Namespace: 50, Cluster: 100}).listed(t, tc.objects)
			var without []string
			for _, o := range tc.objects {
				if !kept[string(o.UID)] {
					without = append(without, string(o.UID))
				}
			}
			assert.Equal(t, tc.without, strings.Join(without, " "))
		})
	}
}

// TestWhatIsKeptDoesNotDependOnTheOrder: of drawn objects that come, change and go in a drawn
// order, the same are kept as by a process that starts then.
func TestWhatIsKeptDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, there := NewAccounts("Thing", api.Share{Namespace: 100, Cluster: 200}), map[string]accounted{}
		all := func() []accounted {
			var objects []accounted
			for _, o := range there {
				objects = append(objects, o)
			}
			rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
			return objects
		}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			o := object(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "name"), 0, rapid.Int64Range(0, 60).Draw(t, "size"))
			o.CreationTimestamp = metav1.Unix(int64(o.Name[0]*7%5), 0)
			if rapid.Bool().Draw(t, "deleted") {
				a.Forget(o)
				delete(there, string(o.UID))
			} else {
				a.put(o)
				there[string(o.UID)] = o
			}
			require.LessOrEqual(t, a.used, a.share.Cluster)
		}
		if a.unsettled() {
			a.listed(t, all())
		}
		want := NewAccounts("Thing", a.share).listed(t, all())
		var used int64
		for key, e := range a.entries {
			require.Equal(t, want[key.namespace.Value()+"/"+key.name], e.kept, "%v", key)
			if e.kept {
				used += e.size
			}
		}
		require.Equal(t, used, a.used)
		for _, o := range there {
			a.Forget(o)
		}
		require.Empty(t, a.entries)
		require.Empty(t, a.spaces)
		require.Zero(t, a.used+int64(a.over))
	})
}

// A tenant with little finds room at once while others take all that there is.
func TestASmallNamespaceFindsRoom(t *testing.T) {
	a := NewAccounts("Thing", api.Share{Namespace: 500, Cluster: 1000})
	for i := range 5 {
		for j := range 12 {
			a.put(object(fmt.Sprint("large", i), fmt.Sprint(j), int64(j), 25))
		}
	}
	assert.Equal(t, int64(1000), a.used)
	assert.True(t, a.unsettled())
	assert.True(t, a.put(object("shop", "web", 99, 20)))
	var text strings.Builder
	text.WriteString(`
# HELP servingcert_object_memory_bytes Bytes that are reserved for what is remembered of the objects of a kind; at most --object-memory.
# TYPE servingcert_object_memory_bytes gauge
servingcert_object_memory_bytes{kind="Thing"} 645
# HELP servingcert_objects_over_memory Objects of a kind for which there was no room in --object-memory, by namespace.
# TYPE servingcert_objects_over_memory gauge
`)
	for i, over := range []int{5, 5, 5, 8, 12} { // which is listed again for the sake of the last two
		fmt.Fprintf(&text, "servingcert_objects_over_memory{kind=\"Thing\",namespace=\"large%d\"} %d\n", i, over)
	}
	require.NoError(t, testutil.CollectAndCompare(Collector{a}, strings.NewReader(text.String())))
}

// What was made again under the same name is not forgotten with what was deleted.
func TestOnlyWhatWasDeletedIsForgotten(t *testing.T) {
	a := NewAccounts("Thing", api.Share{Namespace: 50, Cluster: 100})
	first, second := object("a", "1", 1, 10), object("a", "1", 2, 20)
	second.UID = "another"
	a.put(first)
	a.put(second)
	a.Forget(first)
	assert.Equal(t, int64(20), a.used)
}
