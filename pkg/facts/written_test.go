package facts_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/facts"
)

var (
	noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	web  = types.NamespacedName{Namespace: "shop", Name: "web-tls"}
)

func TestWrittenIsBelievedUntilTheCacheHasSeenIt(t *testing.T) {
	for name, c := range map[string]struct {
		cached string
		after  time.Duration
		behind bool
	}{
		"cache holds nothing":         {"", 0, true},
		"cache holds an older":        {"9", 0, true}, // as text it would be later than 10
		"cache holds it":              {"10", 0, false},
		"cache holds a later":         {"11", 0, false},
		"cache never showed it":       {"9", facts.WrittenFor, true},
		"and it is given up at last":  {"9", facts.WrittenFor + 1, false},
		"what is no number counts as": {"x", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := facts.NewWritten[string]()
			w.Put(web, "10", "mine", noon)
			value, behind := w.Newer(web, c.cached, noon.Add(c.after))
			assert.Equal(t, "mine", value)
			assert.Equal(t, c.behind, behind)

			value, behind = w.Newer(web, "", noon.Add(c.after))
			assert.Equal(t, c.behind, behind, "what was seen once is forgotten")
			assert.Equal(t, c.behind, value == "mine")
		})
	}
}

func TestTheLastWriteIsToldUntilItIsForgotten(t *testing.T) {
	w := facts.NewWritten[string]()
	assert.Empty(t, w.Last(web))
	w.Put(web, "10", "mine", noon)
	assert.Equal(t, "mine", w.Last(web))
	_, echo := w.Echo(web, "10", noon)
	require.True(t, echo, "nothing was taken as seen")
	w.Put(web, "11", "mine again", noon)
	assert.Equal(t, "mine again", w.Last(web))
	w.Deleted(web, "12")
	assert.Empty(t, w.Last(web))
}

func TestWrittenAndDeletedSince(t *testing.T) {
	w := facts.NewWritten[string]()
	w.Deleted(web, "5") // never written
	w.Put(web, "10", "mine", noon)
	w.Deleted(web, "9")
	_, behind := w.Newer(web, "", noon)
	require.True(t, behind, "what was deleted is the one before")
	w.Deleted(web, "12")
	_, behind = w.Newer(web, "", noon)
	assert.False(t, behind)

	w.Put(web, "13", "mine", noon)
	w.Deleted(web, "13")
	_, behind = w.Newer(web, "", noon)
	assert.False(t, behind, "what was written last is what was deleted")
}

// A write that the cache has seen is known to those who read the cache before, and forgotten
// without anybody asking for it.
func TestEchoOfAWrite(t *testing.T) {
	w := facts.NewWritten[string]()
	_, echo := w.Echo(web, "10", noon)
	assert.False(t, echo, "nothing was written")
	w.Put(web, "10", "mine", noon)
	for _, other := range []string{"9", "11", "", "x"} {
		_, echo = w.Echo(web, other, noon)
		assert.False(t, echo, "version %q is of another write", other)
	}
	value, echo := w.Echo(web, "10", noon)
	assert.True(t, echo)
	assert.Equal(t, "mine", value)
	value, behind := w.Newer(web, "9", noon.Add(5*time.Second))
	assert.True(t, behind, "the cache was read before it saw the write")
	assert.Equal(t, "mine", value)

	other := types.NamespacedName{Namespace: "shop", Name: "other"}
	w.Echo(other, "12", noon.Add(5*time.Second+1)) // time passes
	_, behind = w.Newer(web, "9", noon.Add(5*time.Second+1))
	assert.False(t, behind)
}

// Of thousands that were written at once, and none later, nothing is kept.
func TestEchoesAreForgottenWithoutAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := facts.NewWritten[string]()
		echo := func(name string) types.NamespacedName {
			key := types.NamespacedName{Namespace: "shop", Name: name}
			w.Put(key, "10", "mine", time.Now())
			_, echo := w.Echo(key, "10", time.Now())
			require.True(t, echo)
			return key
		}
		first := echo("first")
		time.Sleep(3 * time.Second)
		second := echo("second")
		time.Sleep(2*time.Second + time.Millisecond)
		assert.Empty(t, w.Last(first))
		assert.Equal(t, "mine", w.Last(second))
		time.Sleep(5 * time.Second)
		assert.Empty(t, w.Last(second))

		w.Put(first, "11", "mine", time.Now().Add(-time.Hour)) // somebody sets the clock
		_, seen := w.Echo(first, "11", time.Now().Add(-time.Hour))
		require.True(t, seen)
		time.Sleep(5*time.Second + time.Millisecond)
		assert.Empty(t, w.Last(first))
	})
}

// What was written since an echo is not forgotten with it.
func TestAnEchoIsOfOneWrite(t *testing.T) {
	w := facts.NewWritten[string]()
	w.Put(web, "10", "first", noon)
	_, echo := w.Echo(web, "10", noon)
	require.True(t, echo)
	w.Put(web, "13", "second", noon.Add(time.Second))
	w.Echo(web, "10", noon.Add(time.Minute))
	value, behind := w.Newer(web, "12", noon.Add(2*time.Second))
	assert.True(t, behind)
	assert.Equal(t, "second", value)
}

// What is no number is the version of no write.
func TestAnEchoHasAVersion(t *testing.T) {
	w := facts.NewWritten[string]()
	w.Put(web, "x", "mine", noon)
	_, echo := w.Echo(web, "x", noon)
	assert.False(t, echo)
}
