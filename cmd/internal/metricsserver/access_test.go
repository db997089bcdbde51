package metricsserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/test/integration/harness"
)

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"":                 "",
		"Bearer":           "",
		"Bearer ":          "",
		"Basic dTpw":       "",
		"Bearertoken":      "",
		"Bearer abc":       "abc",
		"bearer abc":       "abc",
		" BEARER   a.b-c ": "a.b-c",
	} {
		token, ok := bearer(header)
		assert.Equal(t, want != "", ok, header)
		if ok {
			assert.Equal(t, want, token, header)
		}
	}
}

// apiServer answers reviews as it is told. Whether the real one does so is seen in
// test/integration/metrics.
func apiServer(t *testing.T, answer http.HandlerFunc) reviewer {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	cfg := &rest.Config{Host: s.URL, QPS: -1}
	authentication, err := authenticationclient.NewForConfig(cfg)
	require.NoError(t, err)
	authorization, err := authorizationclient.NewForConfig(cfg)
	require.NoError(t, err)
	return reviewer{authentication, authorization}
}

func request(ctx context.Context, g *gate, method, authorization string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, method, Path, http.NoBody)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	response := httptest.NewRecorder()
	g.ServeHTTP(response, req)
	return response
}

func TestWithoutATokenNobodyIsAsked(t *testing.T) {
	ask := apiServer(t, func(http.ResponseWriter, *http.Request) { t.Error("the API server was asked") })
	g := newGate(ask, logr.Discard(), http.NotFoundHandler())
	for _, authorization := range []string{"", "Basic dTpw", "Bearer "} {
		response := request(t.Context(), g, http.MethodGet, authorization)
		assert.Equal(t, http.StatusUnauthorized, response.Code, authorization)
		assert.Equal(t, "Bearer", response.Header().Get("WWW-Authenticate"))
		assert.Equal(t, "close", response.Header().Get("Connection"))
	}
	response := request(t.Context(), g, http.MethodPost, "Bearer x")
	assert.Equal(t, http.StatusMethodNotAllowed, response.Code)
	assert.Equal(t, http.MethodGet, response.Header().Get("Allow"))
	assert.Equal(t, "close", response.Header().Get("Connection"))
}

// TestWhatTheAPIServerRefuses: nothing but a yes to both questions lets somebody pass.
func TestWhatTheAPIServerRefuses(t *testing.T) {
	const known = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"anna"}}}`
	const unknown = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"error":"expired"}}`
	access := func(status string) string {
		return `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":` + status + `}`
	}
	for name, test := range map[string]struct {
		token, access string // "" for HTTP 403
		want          int
		says          string
	}{
		"allowed":            {known, access(`{"allowed":true}`), http.StatusNotFound, "404 page not found\n"}, // of the handler behind
		"not allowed":        {known, access(`{}`), http.StatusForbidden, "user \"anna\" may not get /metrics\n"},
		"allowed and denied": {known, access(`{"allowed":true,"denied":true}`), http.StatusForbidden, "user \"anna\" may not get /metrics\n"},
		"an unknown token":   {unknown, access(`{"allowed":true}`), http.StatusUnauthorized, "the API server does not accept the token\n"},
		"no TokenReview":     {"", access(`{"allowed":true}`), http.StatusServiceUnavailable, "the API server does not say who may read the metrics\n"},
		"no access review":   {known, "", http.StatusServiceUnavailable, "the API server does not say who may read the metrics\n"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{
				"/apis/authentication.k8s.io/v1/tokenreviews":        test.token,
				"/apis/authorization.k8s.io/v1/subjectaccessreviews": test.access,
			}
			ask := apiServer(t, func(w http.ResponseWriter, req *http.Request) {
				if answers[req.URL.Path] == "" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(answers[req.URL.Path]))
			})
			response := request(t.Context(), newGate(ask, logr.Discard(), http.NotFoundHandler()), http.MethodGet, "Bearer x")
			assert.Equal(t, test.want, response.Code)
			assert.Equal(t, test.says, response.Body.String())
			assert.Equal(t, name == "allowed", response.Header().Get("Connection") == "", "only who may read keeps the connection")
		})
	}
}

// TestFewAreAskedAboutAtATime: the API server is not asked about more than maxReviews tokens
// at a time, however many clients there are. Those who give up leave the queue.
func TestFewAreAskedAboutAtATime(t *testing.T) {
	var asked atomic.Int32
	hang := make(chan struct{})
	ask := apiServer(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-hang
		w.WriteHeader(http.StatusForbidden)
	})
	g := newGate(ask, logr.Discard(), http.NotFoundHandler())
	var held sync.WaitGroup
	for range maxReviews {
		held.Go(func() { request(t.Context(), g, http.MethodGet, "Bearer x") })
	}
	require.Eventually(t, func() bool { return asked.Load() == maxReviews }, harness.Soon, harness.Tick)
	gaveUp, giveUp := context.WithCancel(t.Context())
	giveUp()
	response := request(gaveUp, g, http.MethodGet, "Bearer x")
	assert.Equal(t, http.StatusServiceUnavailable, response.Code)
	assert.Equal(t, "too many requests wait for the API server to say who sent them\n", response.Body.String())
	assert.EqualValues(t, maxReviews, asked.Load())
	close(hang)
	held.Wait()
}
