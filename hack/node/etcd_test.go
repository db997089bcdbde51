package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All pages are read in order, with one revision.
func TestEachStored(t *testing.T) {
	var keys []string
	for i := range 2*etcdPage + 1 {
		keys = append(keys, fmt.Sprintf("/registry/%05d", i))
	}
	var revisions []string
	etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/v3/kv/range", r.URL.Path)
		var request rangeRequest
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
		assert.Equal(t, []byte{0}, request.RangeEnd)
		revisions = append(revisions, request.Revision)
		var page rangeResponse
		page.Header.Revision = fmt.Sprint(40 + len(revisions))
		for _, key := range keys {
			if key < string(request.Key) {
				continue
			}
			if page.More = len(page.Stored) == request.Limit; page.More {
				break
			}
			page.Stored = append(page.Stored, Stored{Key: []byte(key), Value: []byte("value of " + key)})
		}
		assert.NoError(t, json.NewEncoder(w).Encode(page))
	}))
	t.Cleanup(etcd.Close)
	var read []string
	require.NoError(t, eachStored(t.Context(), etcd.Client(), etcd.URL, func(s Stored) error {
		read = append(read, string(s.Key))
		assert.Equal(t, "value of "+string(s.Key), string(s.Value))
		return nil
	}))
	assert.Equal(t, keys, read)
	assert.Equal(t, []string{"", "41", "42"}, revisions)

	enough := errors.New("enough")
	require.ErrorIs(t, eachStored(t.Context(), etcd.Client(), etcd.URL, func(Stored) error { return enough }), enough)
}

func TestEachStoredReturnsErrors(t *testing.T) {
	etcd := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(etcd.Close)
	err := eachStored(t.Context(), etcd.Client(), etcd.URL, func(Stored) error { return nil })
	require.EqualError(t, err, `read etcd from key "\x00": etcd: 404 Not Found`)
}
