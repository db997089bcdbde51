package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// errDraining is why a webhook that was told to end is not ready.
var errDraining = errors.New("the process is ending: new connections are to go to another replica")

// drain is the time between being told to end and refusing connections. In it the webhook
// is not ready and answers all the same: a pod that is deleted is taken out of its Service
// at once, but it takes a moment until each node knows that.
//
// API servers keep their connections to webhooks, and speak HTTP/1.1, which has no GOAWAY.
// To each request of that time, the answer is therefore the last of its connection. A
// connection that is merely closed may have a request under way, and a request that lost
// its connection is not sent again: its pod is refused.
type drain struct {
	began atomic.Bool
}

// delayed returns a context that ends the delay after ctx does. The drain begins when ctx
// ends. The function that is returned ends everything at once.
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

// ready returns a readiness check that fails once the drain has begun, and is the given
// one before.
func (d *drain) ready(check func(*http.Request) error) func(*http.Request) error {
	return func(r *http.Request) error {
		if d.began.Load() {
			return errDraining
		}
		return check(r)
	}
}

// lastAnswers returns a handler that has the server close a connection after its answer,
// once the drain has begun.
func (d *drain) lastAnswers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.began.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
