package metricsserver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// gateOf returns a gate before a handler that returns 404, with a fake API server. Tests with a real one are
// in test/integration/metrics.
func gateOf(t *testing.T, answer http.HandlerFunc) http.Handler {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	filter, err := filters.WithAuthenticationAndAuthorization(&rest.Config{Host: s.URL, QPS: -1}, s.Client())
	require.NoError(t, err)
	g, err := gate(filter, http.NotFoundHandler())
	require.NoError(t, err)
	return g
}

func request(ctx context.Context, g http.Handler, authorization string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, Path, http.NoBody)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	response := httptest.NewRecorder()
	g.ServeHTTP(response, req)
	return response
}

func TestRequestsWithoutATokenDoNotReachTheAPIServer(t *testing.T) {
	g := gateOf(t, func(http.ResponseWriter, *http.Request) { t.Error("the API server was asked") })
	for _, authorization := range []string{"", "Basic dTpw", "Bearer "} {
		response := request(t.Context(), g, authorization)
		assert.Equal(t, http.StatusUnauthorized, response.Code, authorization)
		assert.Equal(t, "close", response.Header().Get("Connection"))
	}
}

// TestOtherRequestsDoNotReachTheFilter: the filter keeps thousands of refusals by path and method, and so a client
// that it refuses must not be able to vary them.
func TestOtherRequestsDoNotReachTheFilter(t *testing.T) {
	reached := 0
	filter := func(logr.Logger, http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }), nil
	}
	g, err := gate(filter, http.NotFoundHandler())
	require.NoError(t, err)
	for i := range 1000 {
		many := fmt.Sprintf("%06d", i) + strings.Repeat("<", 9900)
		for want, request := range map[int]*http.Request{
			http.StatusNotFound:         {Method: http.MethodGet, URL: &url.URL{Path: "/" + many}},
			http.StatusMethodNotAllowed: {Method: many, URL: &url.URL{Path: Path}},
			http.StatusBadRequest:       {Method: http.MethodGet, URL: &url.URL{Path: Path, RawQuery: many}},
		} {
			response := httptest.NewRecorder()
			g.ServeHTTP(response, request)
			require.Equal(t, want, response.Code)
			require.Equal(t, "close", response.Header().Get("Connection"))
			require.Less(t, response.Body.Len(), 100)
		}
	}
	for _, path := range []string{"", "/", "*", Path + "/", "/" + Path, "/x/.." + Path, Path + "/../metrics"} {
		response := httptest.NewRecorder()
		g.ServeHTTP(response, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
		assert.Equal(t, http.StatusNotFound, response.Code, path)
	}
	for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodOptions, http.MethodConnect, "", "get"} {
		response := httptest.NewRecorder()
		g.ServeHTTP(response, &http.Request{Method: method, URL: &url.URL{Path: Path}})
		assert.Equal(t, http.StatusMethodNotAllowed, response.Code, method)
		assert.Equal(t, http.MethodGet, response.Header().Get("Allow"))
	}
	assert.Zero(t, reached)
	g.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: http.MethodGet, URL: &url.URL{Path: Path}})
	assert.Equal(t, 1, reached)
}

// A client passes only if both reviews succeed and allow it.
func TestOnlyAuthorizedClientsPass(t *testing.T) {
	const known = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"anna"}}}`
	const unknown = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"error":"expired"}}`
	access := func(status string) string {
		return `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":` + status + `}`
	}
	for name, test := range map[string]struct {
		token, access string // "" for HTTP 403
		want          int
	}{
		"allowed":            {known, access(`{"allowed":true}`), http.StatusNotFound}, // from the handler
		"not allowed":        {known, access(`{}`), http.StatusForbidden},
		"allowed and denied": {known, access(`{"allowed":true,"denied":true}`), http.StatusInternalServerError},
		"an unknown token":   {unknown, access(`{"allowed":true}`), http.StatusInternalServerError},
		"no TokenReview":     {"", access(`{"allowed":true}`), http.StatusInternalServerError},
		"no access review":   {known, "", http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{
				"/apis/authentication.k8s.io/v1/tokenreviews":        test.token,
				"/apis/authorization.k8s.io/v1/subjectaccessreviews": test.access,
			}
			g := gateOf(t, func(w http.ResponseWriter, req *http.Request) {
				if answers[req.URL.Path] == "" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(answers[req.URL.Path]))
			})
			response := request(t.Context(), g, "Bearer x")
			assert.Equal(t, test.want, response.Code, response.Body)
			assert.Equal(t, name == "allowed", response.Header().Get("Connection") == "", "only authorized clients keep the connection")
		})
	}
}

// The API server gets reviews of at most maxRequests tokens at a time, however many clients there are.
// Clients that give up leave the queue.
func TestConcurrentReviewsAreLimited(t *testing.T) {
	var asked atomic.Int32
	hang := make(chan struct{})
	g := gateOf(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-hang
		w.WriteHeader(http.StatusForbidden)
	})
	var held sync.WaitGroup
	for i := range maxRequests {
		held.Go(func() { request(t.Context(), g, "Bearer x"+string(rune('a'+i))) })
	}
	require.Eventually(t, func() bool { return asked.Load() == maxRequests }, harness.Soon, harness.Tick)
	gaveUp, giveUp := context.WithCancel(t.Context())
	giveUp()
	response := request(gaveUp, g, "Bearer x")
	assert.Equal(t, http.StatusServiceUnavailable, response.Code)
	assert.Equal(t, "too many requests at the same time\n", response.Body.String())
	assert.EqualValues(t, maxRequests, asked.Load())
	close(hang)
	held.Wait()
}
