// Package follow watches a rotation of the CA or the renewal of certificates until
// it is over, and writes a line for each change.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/progress"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// Timing is how often a Watcher looks, and how long it waits for what may never come.
type Timing struct {
	Look     time.Duration // between two looks
	Services time.Duration // between two looks at all Services, which are listed: that costs more
	// Settle is how long the count of certificates may lag behind the phase.
	Settle time.Duration
	// Grace is how long nothing may change before that is taken for the end, where it is
	// not known that anything is under way: nobody has looked at what pods serve, all that
	// is left is held, the report about it is missing, or a process that has to do it does not
	// run. From a leader that was killed to the next one it takes 20 seconds.
	Grace time.Duration
}

// DefaultTiming returns that of the command.
func DefaultTiming() Timing {
	return Timing{Look: time.Second, Services: 5 * time.Second, Settle: 15 * time.Second, Grace: 30 * time.Second}
}

// Watcher follows what happens in a cluster.
type Watcher struct {
	Cluster   *cluster.Cluster
	Namespace string // of servingcert itself
	Out       io.Writer
	Now       func() time.Time
	Bar       *progress.Bar // how far it is, besides the lines; nil: none
	Timeout   time.Duration // for error messages: the context ends the wait
	Timing    Timing

	last string // the last line
	seen Outcome
	away absence
}

// print writes a line with the time, if it differs from the one before.
func (w *Watcher) print(line string) {
	if line != w.last {
		_, _ = fmt.Fprintf(w.Out, "%s  %s\n", w.Now().UTC().Format(time.TimeOnly), line)
	}
	w.last = line
}

// absence is what is known of processes that do not run.
type absence struct {
	looked time.Time            // when it was looked at last
	since  map[string]time.Time // by the names of those that do not run
}

// gone returns an error if one of the processes has not run for Timing.Grace, and prints what does not
// happen as soon as it does not. It looks at times: whoever waits calls it with each look.
func (w *Watcher) gone(ctx context.Context, names ...string) error {
	now := w.Now()
	if w.Namespace == "" || now.Sub(w.away.looked) < w.Timing.Services {
		return nil
	}
	w.away.looked = now
	all, err := w.Cluster.Leading(ctx, w.Namespace)
	if err != nil {
		return nil //nolint:nilerr // what is waited for is read from the same API server
	}
	before := w.away.since
	w.away.since = map[string]time.Time{}
	for _, p := range all {
		if p.State != doctor.ProcessAway || !slices.Contains(names, p.Name) {
			continue
		}
		since, known := before[p.Name]
		if !known {
			since = now
			_, _ = fmt.Fprintf(w.Out, "%s  %s\n", now.UTC().Format(time.TimeOnly), p)
		}
		if w.away.since[p.Name] = since; now.Sub(since) >= w.Timing.Grace {
			return errors.New(p.String())
		}
	}
	return nil
}

// tooLong returns the error of a command that ends before what it follows does.
func (w *Watcher) tooLong(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not done after %s; the rotation continues without this command. Last status: %s", w.Timeout, status.Dash(w.last))
	}
	return fmt.Errorf("interrupted; the rotation continues without this command. Last status: %s", status.Dash(w.last))
}

// pause waits, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
