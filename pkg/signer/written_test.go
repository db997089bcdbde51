package signer

import (
	"net/http"
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

func TestSkew(t *testing.T) {
	now := epoch
	skew := NewSkew(func() time.Time { return now })
	date := ""
	var failing error
	through := skew.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		if failing != nil {
			return nil, failing
		}
		return &http.Response{Header: http.Header{"Date": {date}}}, nil
	}))
	ask := func(server time.Time) error {
		date = server.Format(http.TimeFormat)
		_, err := through.RoundTrip(nil)
		assert.Equal(t, failing, err)
		return skew.Check()
	}
	require.NoError(t, skew.Check(), "before the first answer")
	for off, want := range map[time.Duration]string{
		0: "", 119 * time.Second: "", -119 * time.Second: "",
		3 * time.Minute:  "the signer's clock is 3m0s behind the API server's, and may differ by at most 2m0s: nothing is signed until one of them is set right",
		-3 * time.Minute: "the signer's clock is 3m0s ahead of the API server's",
	} {
		err := ask(now.Add(off))
		if want == "" {
			require.NoError(t, err, "%s", off)
			continue
		}
		require.ErrorContains(t, err, want)
		assert.Equal(t, ReasonClockSkew, reasonOf(err))
	}

	require.Error(t, ask(now.Add(-time.Hour)))
	failing = assert.AnError
	require.Error(t, ask(now), "no answer says nothing")
	failing = nil
	date = "no date"
	_, err := through.RoundTrip(nil)
	require.NoError(t, err)
	require.Error(t, skew.Check(), "an answer without a date neither")
	require.NoError(t, ask(now), "the clock was set right")
}
