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
		})
	}
}

// Of two who look at once, one may have read the cache before it saw the write, and asks after
// the other.
func TestWrittenIsKnownToThoseWhoReadTheCacheBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := facts.NewWritten[string]()
		w.Put(web, "10", "mine", time.Now())
		for range 2 {
			_, behind := w.Newer(web, "10", time.Now())
			assert.False(t, behind)
			value, behind := w.Newer(web, "9", time.Now())
			assert.True(t, behind)
			assert.Equal(t, "mine", value)
		}
		time.Sleep(time.Second + time.Millisecond)
		value, behind := w.Newer(web, "9", time.Now())
		assert.False(t, behind, "nobody reads the cache as late as that")
		assert.Empty(t, value)
	})
}

func TestWrittenIsGivenUpOnce(t *testing.T) {
	w := facts.NewWritten[string]()
	w.Put(web, "10", "mine", noon)
	w.Newer(web, "9", noon.Add(facts.WrittenFor+1))
	value, behind := w.Newer(web, "9", noon)
	assert.False(t, behind)
	assert.Empty(t, value)
}

func TestTheLastWriteIsToldUntilItIsForgotten(t *testing.T) {
	w := facts.NewWritten[string]()
	assert.Empty(t, w.Last(web))
	w.Put(web, "10", "mine", noon)
	assert.Equal(t, "mine", w.Last(web))
	_, echo := w.Echo(web, "10", noon, nil)
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
	_, echo := w.Echo(web, "10", noon, nil)
	assert.False(t, echo, "nothing was written")
	w.Put(web, "10", "mine", noon)
	for _, other := range []string{"9", "11", "", "x"} {
		_, echo = w.Echo(web, other, noon, nil)
		assert.False(t, echo, "version %q is of another write", other)
	}
	value, echo := w.Echo(web, "10", noon, nil)
	assert.True(t, echo)
	assert.Equal(t, "mine", value)
	value, behind := w.Newer(web, "9", noon.Add(time.Second))
	assert.True(t, behind, "the cache was read before it saw the write")
	assert.Equal(t, "mine", value)

	other := types.NamespacedName{Namespace: "shop", Name: "other"}
	w.Echo(other, "12", noon.Add(time.Second+1), nil) // time passes
	_, behind = w.Newer(web, "9", noon.Add(time.Second+1))
	assert.False(t, behind)
}

// Of thousands that were written at once, and none later, nothing is kept.
func TestEchoesAreForgottenWithoutAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := facts.NewWritten[string]()
		echo := func(name string) types.NamespacedName {
			key := types.NamespacedName{Namespace: "shop", Name: name}
			w.Put(key, "10", "mine", time.Now())
			_, echo := w.Echo(key, "10", time.Now(), nil)
			require.True(t, echo)
			return key
		}
		first := echo("first")
		time.Sleep(600 * time.Millisecond)
		second := echo("second")
		time.Sleep(401 * time.Millisecond)
		assert.Empty(t, w.Last(first))
		assert.Equal(t, "mine", w.Last(second))
		time.Sleep(time.Second)
		assert.Empty(t, w.Last(second))

		w.Put(first, "11", "mine", time.Now().Add(-time.Hour)) // somebody sets the clock
		_, seen := w.Echo(first, "11", time.Now().Add(-time.Hour), nil)
		require.True(t, seen)
		time.Sleep(time.Second + time.Millisecond)
		assert.Empty(t, w.Last(first))
	})
}

// What was written since an echo is not forgotten with it.
func TestAnEchoIsOfOneWrite(t *testing.T) {
	w := facts.NewWritten[string]()
	w.Put(web, "10", "first", noon)
	_, echo := w.Echo(web, "10", noon, nil)
	require.True(t, echo)
	w.Put(web, "13", "second", noon.Add(time.Second))
	w.Echo(web, "10", noon.Add(time.Minute), nil)
	value, behind := w.Newer(web, "12", noon.Add(2*time.Second))
	assert.True(t, behind)
	assert.Equal(t, "second", value)
}

// What is no number is the version of no write.
func TestAnEchoHasAVersion(t *testing.T) {
	w := facts.NewWritten[string]()
	w.Put(web, "x", "mine", noon)
	_, echo := w.Echo(web, "x", noon, nil)
	assert.False(t, echo)
}

// What the cache shows of an object while it is written waits for the answer, which says whose
// it is.
func TestEchoBeforeTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer string // "" if the write failed
		seen   []string
		others []string // versions of somebody else
	}{
		"it is the write":               {"10", []string{"10"}, nil},
		"it is another's":               {"10", []string{"9"}, []string{"9"}},
		"another's before and after it": {"10", []string{"9", "10", "11"}, []string{"9", "11"}},
		"the write failed":              {"", []string{"9", "10"}, []string{"9", "10"}},
		"nothing was seen":              {"10", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var others []string
			w := facts.NewWritten[string]()
			end := w.Begin(web, "mine")
			for _, v := range c.seen {
				value, echo := w.Echo(web, v, noon, func() { others = append(others, v) })
				assert.True(t, echo)
				assert.Empty(t, value)
			}
			if c.answer != "" {
				w.Put(web, c.answer, "mine", noon)
			}
			assert.Empty(t, others, "the write has not ended")
			end()
			assert.Equal(t, c.others, others)

			_, echo := w.Echo(web, "12", noon, nil)
			assert.False(t, echo, "no write is under way")
		})
	}
}

// What was seen before the answer is forgotten as what is seen after it.
func TestAnEarlyEchoIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := facts.NewWritten[string]()
		unseen := types.NamespacedName{Namespace: "shop", Name: "unseen"}
		w.Put(unseen, "9", "mine too", time.Now())
		end := w.Begin(web, "mine")
		w.Echo(web, "10", time.Now(), nil)
		w.Put(web, "10", "mine", time.Now())
		end()
		assert.Equal(t, "mine", w.Last(web))
		time.Sleep(time.Second + time.Millisecond)
		assert.Empty(t, w.Last(web))
		assert.Equal(t, "mine too", w.Last(unseen))

		end = w.Begin(web, "mine again")
		w.Put(web, "12", "mine again", time.Now())
		end()
		time.Sleep(time.Second + time.Millisecond)
		assert.Equal(t, "mine again", w.Last(web), "the cache has not seen it")
	})
}

// Two reconciles may write the status of one Service. Who waits, waits for both.
func TestTwoWritesAtOnce(t *testing.T) {
	var others []string
	see := func(w *facts.Written[string], v string) {
		_, echo := w.Echo(web, v, noon, func() { others = append(others, v) })
		require.True(t, echo)
	}
	w := facts.NewWritten[string]()
	endFirst := w.Begin(web, "first")
	endSecond := w.Begin(web, "second")
	assert.Equal(t, "second", w.Last(web))
	see(w, "10")
	see(w, "11")
	see(w, "12")
	w.Put(web, "10", "first", noon)
	endFirst()
	assert.Empty(t, others)
	w.Put(web, "11", "second", noon)
	see(w, "11")
	endSecond()
	assert.Equal(t, []string{"12"}, others)
}

// An object may be deleted before the answer of the write is here.
func TestDeletedBeforeTheAnswer(t *testing.T) {
	for deleted, behind := range map[string]bool{"9": true, "10": false, "11": false} {
		w := facts.NewWritten[string]()
		end := w.Begin(web, "mine")
		w.Deleted(web, deleted)
		w.Put(web, "10", "mine", noon)
		end()
		_, got := w.Newer(web, "", noon)
		assert.Equal(t, behind, got, "version %s was deleted", deleted)
	}
}

// While a write is under way, it is what was written last.
func TestWhatIsBeingWrittenIsTold(t *testing.T) {
	w := facts.NewWritten[string]()
	w.Put(web, "10", "mine", noon)
	end := w.Begin(web, "mine again")
	assert.Equal(t, "mine again", w.Last(web))
	value, behind := w.Newer(web, "9", noon)
	assert.True(t, behind)
	assert.Equal(t, "mine", value, "it is not known whether that was written")
	end()
	assert.Equal(t, "mine", w.Last(web))
}
