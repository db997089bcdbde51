package facts_test

import (
	"testing"
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
