package signer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// secretKey reads "namespace/name".
func secretKey(s string) types.NamespacedName {
	namespace, name, _ := strings.Cut(s, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestTurns(t *testing.T) {
	// A step is "+key" or "+key:priority" to add, "-key" for done, "^key:priority" to
	// raise, and otherwise the Secret that is expected to be next.
	for name, steps := range map[string]string{
		"one namespace has all the turns":          "+a/1 +a/2 +a/3 a/1 a/2 a/3",
		"namespaces take turns":                    "+a/1 +a/2 +a/3 +b/1 +b/2 a/1 b/1 a/2 b/2 a/3",
		"a newcomer comes before who has a worker": "+a/1 +a/2 +a/3 a/1 a/2 +b/1 b/1 a/3",
		"as many under way as the other":           "+a/1 +a/2 +a/3 a/1 a/2 +b/1 +b/2 +b/3 b/1 b/2 a/3 b/3",
		"done gives the turn back":                 "+a/1 +a/2 +b/1 +b/2 a/1 b/1 -b/1 b/2 a/2",
		"after a turn at the end of the line":      "+a/1 +b/1 +c/1 a/1 -a/1 +a/1 b/1 -b/1 c/1 -c/1 a/1",
		"higher priority first in a namespace":     "+a/1:-100 +a/2 +a/3:-100 +a/4 a/2 a/4 a/1 a/3",
		"low priority takes no turn away":          "+a/1:-100 +a/2:-100 +b/1 +b/2 +b/3 a/1 b/1 a/2 b/2 b/3",
		"above zero before all others":             "+a/1 +b/1 +own/1:1 +own/2:1 +own/3 own/1 own/2 a/1 b/1 own/3",
		"added again is there once":                "+a/1 +a/1 +a/2 a/1 a/2",
		"raised":                                   "+a/1 +b/1 +b/2 ^b/2:1 b/2 a/1 b/1",
		"raised in the line":                       "+a/1 +a/2 +a/3 ^a/3:0 a/1 ^a/3:-100 a/2 a/3",
		"raised by being added again":              "+a/1 +b/1 +b/1:1 b/1 a/1",
	} {
		t.Run(name, func(t *testing.T) {
			var turns Turns
			for _, step := range strings.Fields(steps) {
				text, number, _ := strings.Cut(strings.TrimLeft(step, "+-^"), ":")
				key, priority := secretKey(text), 0
				if number != "" {
					_, err := fmt.Sscan(number, &priority)
					require.NoError(t, err)
				}
				switch step[0] {
				case '+':
					turns.Add(key, priority)
				case '^':
					turns.Raise(key, priority)
				case '-':
					turns.Done(key)
				default:
					next, _ := turns.Next()
					assert.Equal(t, key, next)
				}
			}
			assert.Zero(t, turns.Len())
		})
	}
}

// Whatever comes and goes, no Secret is lost and none is given out twice, and a namespace
// that has work and no worker waits for no more turns than there are namespaces.
func TestTurnsStarveNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var turns Turns
		waiting, working := map[types.NamespacedName]int{}, map[types.NamespacedName]bool{}
		held := map[string]int{}    // of each namespace, how many are being worked on
		ahead := map[string]int{}   // how many turns others may have before it
		inLine := map[string]bool{} // namespaces with Secrets that wait
		count := func() map[string]bool {
			out := map[string]bool{}
			for key := range waiting {
				out[key.Namespace] = true
			}
			return out
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := types.NamespacedName{
				Namespace: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "namespace"),
				Name:      rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "name"),
			}
			switch rapid.SampledFrom([]string{"add", "add", "next", "done"}).Draw(t, "step") {
			case "add":
				if working[key] {
					continue // client-go's queue adds it when it is done
				}
				priority := rapid.SampledFrom([]int{-100, 0}).Draw(t, "priority")
				if before, there := waiting[key]; !there || priority > before {
					waiting[key] = priority
				}
				turns.Add(key, priority)
			case "next":
				if turns.Len() == 0 {
					continue
				}
				next, priority := turns.Next()
				require.Contains(t, waiting, next)
				assert.Equal(t, waiting[next], priority)
				assert.False(t, working[next])
				for other := range waiting {
					assert.LessOrEqual(t, held[next.Namespace], held[other.Namespace], "%s has fewer workers", other.Namespace)
					assert.False(t, other.Namespace == next.Namespace && waiting[other] > priority, "%s comes first in its namespace", other)
				}
				delete(waiting, next)
				working[next] = true
				held[next.Namespace]++
				for namespace := range ahead {
					if namespace != next.Namespace && held[namespace] == 0 && inLine[namespace] {
						ahead[namespace]--
						assert.GreaterOrEqual(t, ahead[namespace], 0, "%s has waited too long", namespace)
					}
				}
				delete(ahead, next.Namespace)
			case "done":
				if !working[key] {
					continue
				}
				turns.Done(key)
				delete(working, key)
				held[key.Namespace]--
			}
			inLine = count()
			for namespace := range inLine {
				if _, counted := ahead[namespace]; !counted && held[namespace] == 0 {
					ahead[namespace] = len(inLine) - 1
				}
			}
			assert.Equal(t, len(waiting), turns.Len())
		}
		left := map[types.NamespacedName]bool{}
		for turns.Len() > 0 {
			key, _ := turns.Next()
			left[key] = true
		}
		assert.Len(t, left, len(waiting))
		for key := range waiting {
			assert.Contains(t, left, key)
		}
	})
}

// A namespace with thousands of Secrets gives each of many others the next turn.
func TestTurnsAreCheap(t *testing.T) {
	var turns Turns
	for i := range 5000 {
		turns.Add(types.NamespacedName{Namespace: "busy", Name: fmt.Sprint(i)}, 0)
		turns.Add(types.NamespacedName{Namespace: fmt.Sprint("other-", i), Name: "tls"}, -100)
	}
	seen := map[types.NamespacedName]bool{}
	var busy []int
	for i := range 10000 {
		key, _ := turns.Next()
		assert.False(t, seen[key])
		seen[key] = true
		if key.Namespace == "busy" {
			busy = append(busy, i)
		}
		turns.Done(key)
	}
	assert.Equal(t, 0, busy[0])
	assert.Equal(t, 5001, busy[1], "one turn, and then every other namespace has had one")
	assert.True(t, slices.IsSorted(busy))
	assert.Empty(t, turns.lines, "what has no work is forgotten")
}
