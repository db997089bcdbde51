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

// Intervals between two looks. Services are listed, which costs more.
const (
	lookEvery     = time.Second
	servicesEvery = 5 * time.Second
)

// Watcher follows what happens in a cluster.
type Watcher struct {
	Cluster   *cluster.Cluster
	Namespace string // of servingcert itself
	Out       io.Writer
	Now       func() time.Time
	Bar       *progress.Bar // how far it is, besides the lines; nil: none
	Timeout   time.Duration // for error messages: the context ends the wait

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
