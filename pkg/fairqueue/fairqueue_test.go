package fairqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// thing is an item of a tenant, "tenant/name".
type thing string

func (t thing) tenant() string { tenant, _, _ := strings.Cut(string(t), "/"); return tenant }

func next(q *Queue[thing]) (thing, int) {
	_, key, priority, _ := q.Next()
	return key, priority
}

func TestQueue(t *testing.T) {
	// A step is "+key" or "+key:priority" to add, "-key" for done, "^key:priority" to
	// raise, "!key" to remove, and otherwise the Secret that is expected to be next.
	for name, steps := range map[string]string{
		"one namespace has all the turns":       "+a/1 +a/2 +a/3 a/1 a/2 a/3",
		"namespaces take turns":                 "+a/1 +a/2 +a/3 +b/1 +b/2 a/1 b/1 a/2 b/2 a/3",
		"a newcomer precedes one with a worker": "+a/1 +a/2 +a/3 a/1 a/2 +b/1 b/1 a/3",
		"equal numbers in progress":             "+a/1 +a/2 +a/3 a/1 a/2 +b/1 +b/2 +b/3 b/1 b/2 a/3 b/3",
		"done gives the turn back":              "+a/1 +a/2 +b/1 +b/2 a/1 b/1 -b/1 b/2 a/2",
		"after a turn at the end of the line":   "+a/1 +b/1 +c/1 a/1 -a/1 +a/1 b/1 -b/1 c/1 -c/1 a/1",
		"higher priority first in a namespace":  "+a/1:-100 +a/2 +a/3:-100 +a/4 a/2 a/4 a/1 a/3",
		"low priority takes no turn away":       "+a/1:-100 +a/2:-100 +b/1 +b/2 +b/3 a/1 b/1 a/2 b/2 b/3",
		"above zero before all others":          "+a/1 +b/1 +own/1:1 +own/2:1 +own/3 own/1 own/2 a/1 b/1 own/3",
		"added again waits once":                "+a/1 +a/1 +a/2 a/1 a/2",
		"raised":                                "+a/1 +b/1 +b/2 ^b/2:1 b/2 a/1 b/1",
		"raised in the line":                    "+a/1 +a/2 +a/3 ^a/3:0 a/1 ^a/3:-100 a/2 a/3",
		"raised to the last place":              "+a/1:5 +a/2:1 +a/3:5 ^a/2:5 a/1 a/3 a/2",
		"raised to its own priority":            "+a/1:5 +a/2:5 ^a/1:5 a/1 a/2",
		"removed":                               "+a/1 +a/2 +b/1 !a/1 !b/1 !b/2 !c/1 a/2",
		"removed from the middle":               "+a/1 +b/1 +c/1 +c/2 !b/1 !c/1 a/1 c/2",
		"removed while another is worked on":    "+a/1 +a/2 a/1 !a/2 +a/3 +b/1 b/1 a/3 -a/1 -a/3 -b/1",
		"raised by being added again":           "+a/1 +b/1 +b/1:1 b/1 a/1",
	} {
		t.Run(name, func(t *testing.T) {
			var turns Queue[thing]
			for _, step := range strings.Fields(steps) {
				text, number, _ := strings.Cut(strings.TrimLeft(step, "+-^!"), ":")
				key, priority := thing(text), 0
				if number != "" {
					_, err := fmt.Sscan(number, &priority)
					require.NoError(t, err)
				}
				switch step[0] {
				case '+':
					turns.Add(key.tenant(), key, priority)
				case '^':
					turns.Raise(key.tenant(), key, priority)
				case '!':
					turns.Remove(key.tenant(), key)
				case '-':
					turns.Done(key.tenant())
				default:
					got, _ := next(&turns)
					assert.Equal(t, key, got)
				}
			}
			assert.Zero(t, turns.Len())
		})
	}
}

// A tenant never has more than PerTenant items in progress, and Next returns an item whenever one can start.
func TestPropertyNobodyHasMoreThanItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Queue[int]{PerTenant: rapid.IntRange(1, 3).Draw(t, "share")}
		waiting, working := map[string]int{}, map[string]int{}
		for step := range rapid.IntRange(1, 100).Draw(t, "steps") {
			tenant := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				q.Add(tenant, step, rapid.IntRange(-1, 1).Draw(t, "priority"))
				waiting[tenant]++
			case 2:
				of, _, _, ok := q.Next()
				may := false
				for tenant, n := range waiting {
					may = may || n > 0 && working[tenant] < q.PerTenant
				}
				require.Equal(t, may, ok)
				if ok {
					waiting[of]--
					working[of]++
					require.LessOrEqual(t, working[of], q.PerTenant)
				}
			default:
				if working[tenant] > 0 {
					q.Done(tenant)
					working[tenant]--
				}
			}
		}
	})
}

// For any sequence of operations, no item is lost or returned twice, and a tenant with work
// but no worker waits for at most as many turns as there are tenants.
func TestPropertyNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var turns Queue[thing]
		waiting, working := map[thing]int{}, map[thing]bool{}
		held := map[string]int{}    // items in progress, by namespace
		ahead := map[string]int{}   // turns that others may have before it
		inLine := map[string]bool{} // namespaces with Secrets that wait
		count := func() map[string]bool {
			out := map[string]bool{}
			for key := range waiting {
				out[key.tenant()] = true
			}
			return out
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := thing(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "tenant") + "/" +
				rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "name"))
			switch rapid.SampledFrom([]string{"add", "add", "next", "done"}).Draw(t, "step") {
			case "add":
				if working[key] {
					continue // client-go's queue adds it after Done
				}
				priority := rapid.SampledFrom([]int{-100, 0}).Draw(t, "priority")
				if before, there := waiting[key]; !there || priority > before {
					waiting[key] = priority
				}
				turns.Add(key.tenant(), key, priority)
			case "next":
				if turns.Len() == 0 {
					continue
				}
				taken, priority := next(&turns)
				require.Contains(t, waiting, taken)
				assert.Equal(t, waiting[taken], priority)
				assert.False(t, working[taken])
				for other := range waiting {
					assert.LessOrEqual(t, held[taken.tenant()], held[other.tenant()], "%s has fewer workers", other.tenant())
					assert.False(t, other.tenant() == taken.tenant() && waiting[other] > priority, "%s comes first of its tenant", other)
				}
				delete(waiting, taken)
				working[taken] = true
				held[taken.tenant()]++
				for namespace := range ahead {
					if namespace != taken.tenant() && held[namespace] == 0 && inLine[namespace] {
						ahead[namespace]--
						assert.GreaterOrEqual(t, ahead[namespace], 0, "%s has waited too long", namespace)
					}
				}
				delete(ahead, taken.tenant())
			case "done":
				if !working[key] {
					continue
				}
				turns.Done(key.tenant())
				delete(working, key)
				held[key.tenant()]--
			}
			inLine = count()
			for namespace := range inLine {
				if _, counted := ahead[namespace]; !counted && held[namespace] == 0 {
					ahead[namespace] = len(inLine) - 1
				}
			}
			assert.Equal(t, len(waiting), turns.Len())
		}
		left := map[thing]bool{}
		for turns.Len() > 0 {
			key, _ := next(&turns)
			left[key] = true
		}
		assert.Len(t, left, len(waiting))
		for key := range waiting {
			assert.Contains(t, left, key)
		}
	})
}

// Many tenants get the next turns in spite of a tenant with thousands of items.
func TestAQueueOfManyIsCheap(t *testing.T) {
	var turns Queue[thing]
	for i := range 5000 {
		turns.Add("busy", thing(fmt.Sprint("busy/", i)), 0)
		other := fmt.Sprint("other-", i)
		turns.Add(other, thing(other+"/tls"), -100)
	}
	seen := map[thing]bool{}
	var busy []int
	for i := range 10000 {
		key, _ := next(&turns)
		assert.False(t, seen[key])
		seen[key] = true
		if key.tenant() == "busy" {
			busy = append(busy, i)
		}
		turns.Done(key.tenant())
	}
	assert.Equal(t, 0, busy[0])
	assert.Equal(t, 5001, busy[1], "one turn, and then every other namespace has had one")
	assert.True(t, slices.IsSorted(busy))
	assert.Empty(t, turns.tenants, "tenants without work are removed")
}
