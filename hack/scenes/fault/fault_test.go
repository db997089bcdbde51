package fault

import (
	"context"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestChoose(t *testing.T) {
	assert.Equal(t, "passed", choose(http.MethodPost, 0, 0, 0).name)
	assert.Equal(t, "passed", choose(http.MethodPost, 0.2, 0.2, 0).name)
	reads, writes := map[string]bool{}, map[string]bool{}
	for v := 0.0; v < 1; v += 0.01 {
		reads[choose(http.MethodGet, 0.2, 0.19, v).name] = true
		writes[choose(http.MethodPut, 0.2, 0.19, v).name] = true
	}
	assert.Equal(t, map[string]bool{"429": true, "500": true, "no answer": true, "connection cut": true}, reads)
	assert.Len(t, writes, len(answers)-1)
}

// TestAPIServer: each answer is what it says, and only what was not cut before was carried out.
func TestAPIServer(t *testing.T) {
	var carriedOut atomic.Int64
	genuine := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		carriedOut.Add(1)
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	t.Cleanup(genuine.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: genuine.Certificate().Raw})
	p, err := NewAPIServer(&rest.Config{Host: genuine.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	put := func() (*http.Response, string) {
		ctx, cancel := context.WithTimeout(t.Context(), silence/2)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.Host(), http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer x")
		resp, err := p.server.Client().Do(req)
		if err != nil {
			return &http.Response{}, err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	_, body := put()
	assert.Equal(t, "Bearer x", body)

	p.Fail(1)
	codes := map[int]bool{}
	for n := 0; n < 200 && p.Count()["no answer"] == 0; n++ { // one is enough to wait for
		resp, _ := put()
		codes[resp.StatusCode] = true
		if resp.StatusCode == http.StatusTooManyRequests {
			assert.Equal(t, "1", resp.Header.Get("Retry-After"))
		}
	}
	assert.Subset(t, []int{0, 429, 409, 500}, slices.Collect(maps.Keys(codes)))
	count := p.Count()
	assert.EqualValues(t, count["passed"]+count["answer lost"], carriedOut.Load())
	assert.Positive(t, count["no answer"])
}
