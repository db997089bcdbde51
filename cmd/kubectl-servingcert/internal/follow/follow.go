// Package follow watches a rotation of the CA or the renewal of certificates until
// it is over, and writes a line for each change.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/progress"
)

// Timing is how often a Watcher looks, and how long it waits for what may never come.
type Timing struct {
	Look     time.Duration // between two looks
	Services time.Duration // between two looks at all Services, which are listed: that costs more
	// Settle is how long the count of certificates may lag behind the phase.
	Settle time.Duration
	// Grace is how long nothing may change before that is taken for the end, where it is
	// not known that anything is under way: nobody has looked at what pods serve, all that
	// is left is held, or the report about it is missing.
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
}

// print writes a line with the time, if it differs from the one before.
func (w *Watcher) print(line string) {
	if line != w.last {
		_, _ = fmt.Fprintf(w.Out, "%s  %s\n", w.Now().UTC().Format(time.TimeOnly), line)
	}
	w.last = line
}

// tooLong returns the error of a command that ends before what it follows does.
func (w *Watcher) tooLong(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not done after %s; the rotation continues without this command. Last status: %s", w.Timeout, judge.Dash(w.last))
	}
	return fmt.Errorf("interrupted; the rotation continues without this command. Last status: %s", judge.Dash(w.last))
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
