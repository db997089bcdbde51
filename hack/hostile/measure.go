package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// row is something of the first tenant that is measured.
type row int

const (
	rowBare    row = iota // a request that has nothing to do with servingcert
	rowReady              // annotated Service -> condition Ready
	rowRenewed            // renew-after -> another leaf in condition Ready
	rowPod                // a pod created through the webhook
	rowServed             // another leaf in condition Ready -> condition Serving names it
	rowRestarted
	rows
)

func (r row) String() string {
	return [rows]string{
		"ConfigMap created (the API server alone)",
		"annotated Service until Ready",
		"renewal requested until new certificate",
		"pod created through the webhook",
		"new certificate until seen served",
		"new certificate until restarted and served",
	}[r]
}

// shown is how many errors of a row are printed.
const shown = 3

// samples are what was measured of a row.
type samples struct {
	took   []time.Duration
	failed int // requests that were answered with an error
	late   int // not finished in time
	errors []string
}

// measures are filled by several goroutines.
type measures struct {
	mu  sync.Mutex
	row [rows]samples
}

func (m *measures) took(r row, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.row[r].took = append(m.row[r].took, d)
}

// failed notes an error. What did not come in time is told from a refusal.
func (m *measures) failed(r row, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.row[r].note(err)
}

func (s *samples) note(err error) {
	if errors.Is(err, errLate) {
		s.late++
	} else {
		s.failed++
	}
	if len(s.errors) < shown {
		s.errors = append(s.errors, err.Error())
	}
}

// errLate is why something that was waited for did not come.
var errLate = errors.New("not in time")

// late returns an error that wraps errLate if that is why ctx ended, and else ctx's.
func late(ctx context.Context, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", what, errLate)
	}
	return fmt.Errorf("%s: %w", what, cmp.Or(context.Cause(ctx), ctx.Err()))
}
