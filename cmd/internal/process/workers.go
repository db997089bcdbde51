package process

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/servingcert/servingcert/pkg/heartbeat"
)

const (
	// reconcileTimeout is the time after which a worker's API requests for one object are cancelled.
	// Generating an RSA key of 4096 bits takes seconds of CPU time.
	reconcileTimeout = 2 * time.Minute
	// patience is how long a worker or a watch may be busy with one object while the process is
	// ready: what does not end with reconcileTimeout is stuck.
	patience = reconcileTimeout + time.Minute
	// restartAfter is the multiple of patience after which the process is not alive: a restart frees
	// the worker, and another replica leads.
	restartAfter = 3
)

// workers checks the workers of a process each time its health is probed.
type workers struct {
	going    *heartbeat.Going
	patience time.Duration
	clock    func() time.Time
	log      logr.Logger

	mu     sync.Mutex
	seen   heartbeat.Seen
	logged map[heartbeat.Work]bool
}

func newWorkers(log logr.Logger) *workers {
	return &workers{going: &heartbeat.Process, patience: patience, clock: time.Now, log: log, logged: map[heartbeat.Work]bool{}}
}

// check returns an error that names the workers busy with one object for longer than patience. It logs
// the object once.
func (w *workers) check(patience time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	going, now := w.going.Now(), w.clock()
	w.seen = w.seen.Look(going, now)
	stuck := w.seen.Stuck(going, now, patience)
	logged := map[heartbeat.Work]bool{}
	for _, work := range w.seen.Stuck(going, now, w.patience) {
		if logged[work] = true; !w.logged[work] {
			w.log.Error(nil, "a worker has been busy with one object for too long", "worker", work.Worker, "object", work.Object.String(), "for", now.Sub(w.seen.Since(work)))
		}
	}
	w.logged = logged
	return heartbeat.Describe(stuck, patience)
}

// before returns a handler that fails if a worker has been busy for times × w.patience, and otherwise
// calls next.
func (w *workers) before(next http.Handler, times int) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if err := w.check(time.Duration(times) * w.patience); err != nil {
			http.Error(response, fmt.Sprintf("[-]workers failed: %v", err), http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(response, request)
	})
}
