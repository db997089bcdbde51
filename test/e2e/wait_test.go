//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// Timeouts, several times longer than observed on two idle cores.
const (
	// starting is for pods that start concurrently with all others.
	starting = 4 * time.Minute
	// propagating is for a new certificate to be served: the kubelet writes it within 92 s.
	propagating = 4 * time.Minute
	// verifying is for the rotator to report it.
	verifying = process.Soon
	// settling is for what takes a second on an idle machine. After a reboot, some 150 processes are runnable.
	settling = process.Soon

	tick = 500 * time.Millisecond
)

// until polls until check returns nil, or returns its last error after the limit.
func until(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	if err := process.Poll(ctx, limit, tick, check); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// eventually fails the test, with the last error, unless check returns nil in time.
func eventually(t *testing.T, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	if err := until(t.Context(), limit, what, check); err != nil {
		t.Fatal(err)
	}
}
