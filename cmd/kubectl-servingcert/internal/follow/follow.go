// Package follow watches a rotation of the CA or the renewal of certificates until
// it is complete, and writes a line for each change.
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

// Timing holds the intervals and timeouts of a Watcher.
type Timing struct {
	PollInterval time.Duration
	Services     time.Duration // interval of lists of all Services, which are more expensive
	// Settle is how long the count of certificates may lag behind the phase.
	Settle time.Duration
	// Grace is how long nothing may change before the wait ends, if it is unknown whether
	// anything is under way: the rotator has probed no pod, a report is missing, or a required
	// process is not running. A new leader takes over from a killed one within 20 seconds.
	Grace time.Duration
}

// DefaultTiming returns the timing of the command.
func DefaultTiming() Timing {
	return Timing{PollInterval: time.Second, Services: 5 * time.Second, Settle: 15 * time.Second, Grace: 30 * time.Second}
}

// Watcher follows a rotation or renewal in a cluster.
type Watcher struct {
	Cluster   *cluster.Cluster
	Namespace string // of servingcert itself
	Out       io.Writer
	Now       func() time.Time
	Bar       *progress.Bar // the progress, besides the lines; nil: none
	Timeout   time.Duration // for error messages; the context ends the wait
	Timing    Timing
	// Identities: the CA is that for identities, which has no targets but a ClusterTrustBundle, and whose certificates
	// kubelets replace when they are due.
	Identities bool

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

// absence records processes that are not running.
type absence struct {
	checked time.Time            // the last check
	since   map[string]time.Time // by the names of these processes
}

// gone returns an error if one of the processes has not been running for Timing.Grace, and prints a line when
// it first finds that. Loops call it at each poll; it checks at the interval Timing.Services.
func (w *Watcher) gone(ctx context.Context, names ...string) error {
	now := w.Now()
	if w.Namespace == "" || now.Sub(w.away.checked) < w.Timing.Services {
		return nil
	}
	w.away.checked = now
	all, err := w.Cluster.Leading(ctx, w.Namespace)
	if err != nil {
		return nil //nolint:nilerr // the next poll returns errors of the API server
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

// tooLong returns the error of a command that ends before the rotation.
func (w *Watcher) tooLong(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not done after %s; the rotation continues without this command. Last status: %s", w.Timeout, status.Dash(w.last))
	}
	return fmt.Errorf("interrupted; the rotation continues without this command. Last status: %s", status.Dash(w.last))
}

// pause waits for d, and reports whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
