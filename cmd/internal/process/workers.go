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
	// reconcileTimeout is how long a worker may take for one object before its calls of the API
	// server end. An RSA key of 4096 bits takes seconds of a core.
	reconcileTimeout = 2 * time.Minute
	// patience is how long a worker, or a watch, is seen to be busy with one object before the
	// process is not ready: what does not end with reconcileTimeout waits for nothing outside.
	patience = reconcileTimeout + time.Minute
	// restartAfter is after how much of patience the process is not alive either: a restart frees
	// the worker, and another replica leads.
	restartAfter = 3
)

// workers is what is seen of the work of a process each time somebody asks for its health.
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

// check returns an error that names a worker that is busy with one object for so long. The object
// is logged, once.
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

// before returns a handler that answers for next if a worker is busy for so many times patience,
// and says with which check that is.
func (w *workers) before(next http.Handler, times int) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if err := w.check(time.Duration(times) * w.patience); err != nil {
			http.Error(response, fmt.Sprintf("[-]workers failed: %v", err), http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(response, request)
	})
}
