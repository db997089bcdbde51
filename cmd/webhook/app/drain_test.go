package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/mutate/admission"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// draining is a server of reviews on loopback, whose drain begins with stop.
type draining struct {
	drain  *drain
	url    string
	client *http.Client
	stop   context.CancelFunc
	end    context.CancelFunc // without waiting for the delay
	ended  chan error
}

func newDraining(t *testing.T, review http.HandlerFunc) *draining {
	t.Helper()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)

	d := &draining{drain: &drain{}, ended: make(chan error, 1), client: certificate.Client()}
	s := newServer("127.0.0.1", 0, certificate.TLS, d.drain, bounds())
	s.Register(admission.Path, review)
	listener, err := s.port.Listen(s.address)
	require.NoError(t, err)
	d.url = "https://" + listener.Addr().String() + admission.Path
	var ctx context.Context
	ctx, d.stop = context.WithCancel(context.Background())
	ctx, d.end = d.drain.delayed(ctx, time.Hour, logr.Discard())
	t.Cleanup(d.end)
	go func() { d.ended <- s.serve(ctx, listener) }()
	return d
}

// review makes a request, and returns whether it reused a connection.
func (d *draining) review(t *testing.T) (response *http.Response, kept bool) {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { kept = info.Reused }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, d.url, http.NoBody)
	require.NoError(t, err)
	response, err = d.client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response, kept
}

func (d *draining) waitBegan(t *testing.T) {
	t.Helper()
	require.Eventually(t, d.drain.began.Load, harness.Soon, time.Millisecond)
}

// During a drain, each request is answered, and the answer closes its connection. No connection is closed
// without an answer.
func TestADrainAnswersAndClosesConnections(t *testing.T) {
	d := newDraining(t, func(http.ResponseWriter, *http.Request) {})
	response, _ := d.review(t)
	assert.False(t, response.Close, "connections are kept before")

	d.stop()
	d.waitBegan(t)
	response, kept := d.review(t)
	assert.True(t, kept, "the previous connection still works")
	assert.True(t, response.Close, "this answer closes it")
	response, kept = d.review(t)
	assert.False(t, kept, "new connections are still accepted")
	assert.True(t, response.Close)

	d.end()
	assert.NoError(t, <-d.ended)
	_, err := d.client.Post(d.url, "application/json", http.NoBody)
	assert.Error(t, err, "the server has ended")
}

// A review in progress is answered, although the drain begins and ends meanwhile.
func TestAReviewInProgressIsAnswered(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	d := newDraining(t, func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		w.WriteHeader(http.StatusTeapot)
	})
	answer := make(chan int, 1)
	go func() {
		response, err := d.client.Post(d.url, "application/json", http.NoBody)
		if err != nil {
			answer <- 0
			return
		}
		_ = response.Body.Close()
		answer <- response.StatusCode
	}()
	<-begun
	d.stop()
	d.waitBegan(t)
	d.end()
	select {
	case err := <-d.ended:
		require.Fail(t, "the server ended before its review", "%v", err)
	case code := <-answer:
		require.Fail(t, "the review was answered before it was finished", "%d", code)
	default:
	}
	close(finish)
	assert.Equal(t, http.StatusTeapot, <-answer)
	assert.NoError(t, <-d.ended)
}

func TestNotReadyWhileDraining(t *testing.T) {
	d := &drain{}
	check := d.ready(func(*http.Request) error { return nil })
	require.NoError(t, check(nil))
	ctx, stop := context.WithCancel(context.Background())
	serving, end := d.delayed(ctx, 0, logr.Discard())
	defer end()
	require.NoError(t, serving.Err())
	stop()
	<-serving.Done() // after no delay
	assert.ErrorIs(t, check(nil), errDraining)
}
