package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestWrittenIsBelievedUntilTheCacheHasSeenIt(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web-tls"}
	for name, c := range map[string]struct {
		cached string
		after  time.Duration
		behind bool
	}{
		"cache holds nothing":         {"", 0, true},
		"cache holds an older":        {"9", 0, true}, // as text it would be later than 10
		"cache holds it":              {"10", 0, false},
		"cache holds a later":         {"11", 0, false},
		"cache never showed it":       {"9", writtenFor, true},
		"and it is given up at last":  {"9", writtenFor + 1, false},
		"what is no number counts as": {"x", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWritten[string]()
			w.put(key, "10", "mine", epoch)
			value, behind := w.newer(key, c.cached, epoch.Add(c.after))
			assert.Equal(t, "mine", value)
			assert.Equal(t, c.behind, behind)

			value, behind = w.newer(key, "", epoch.Add(c.after))
			assert.Equal(t, c.behind, behind, "what was seen once is forgotten")
			assert.Equal(t, c.behind, value == "mine")
		})
	}
}

func TestWrittenAndDeletedSince(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web-tls"}
	w := newWritten[string]()
	w.deleted(key, "5") // never written
	w.put(key, "10", "mine", epoch)
	w.deleted(key, "9")
	_, behind := w.newer(key, "", epoch)
	require.True(t, behind, "what was deleted is the one before")
	w.deleted(key, "12")
	_, behind = w.newer(key, "", epoch)
	assert.False(t, behind)
}
