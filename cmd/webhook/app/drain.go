package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// errDraining is the reason why a terminating webhook is not ready.
var errDraining = errors.New("the process is shutting down")

// drain is the period between SIGTERM and closing the listener. During it the webhook is not ready
// but still answers: the endpoint of a deleted pod is removed at once, but nodes learn of it later.
//
// API servers keep their connections to webhooks open, and speak HTTP/1.1, which has no GOAWAY.
// During the drain, each answer therefore closes its connection. Closing a connection without an
// answer could lose a request in flight: the API server does not retry it, and rejects the pod.
type drain struct {
	began atomic.Bool
}

// delayed returns a context that ends delay after ctx does, and a function that ends it at once. The
// drain begins when ctx ends.
func (d *drain) delayed(ctx context.Context, delay time.Duration, log logr.Logger) (context.Context, context.CancelFunc) {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		defer end()
		d.began.Store(true)
		log.Info("draining", "for", delay)
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-serving.Done():
		}
	})
	return serving, func() {
		forget()
		end()
	}
}

// ready returns a readiness check that fails once the drain has begun, and runs check before.
func (d *drain) ready(check func(*http.Request) error) func(*http.Request) error {
	return func(r *http.Request) error {
		if d.began.Load() {
			return errDraining
		}
		return check(r)
	}
}

// lastAnswers returns a handler that closes the connection after its answer once the drain has begun.
func (d *drain) lastAnswers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.began.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
