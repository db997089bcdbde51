//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

// Limits of waiting, several times what is seen on two cores that do nothing else.
const (
	// starting is for pods that start, at the same time as all others do.
	starting = 4 * time.Minute
	// propagating is for a new certificate to be served: the kubelet brings it
	// within 92 s.
	propagating = 4 * time.Minute
	// verifying is for the rotator to see it and report it.
	verifying = process.Soon
	// settling is for what takes a second on an idle machine. After a reboot some 150 processes are runnable at once.
	settling = process.Soon

	tick = 500 * time.Millisecond
)

// until looks until check returns nil, and returns its last error when the limit
// is over.
func until(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, limit, err)
		case <-time.After(tick):
		}
	}
}

// eventually fails the test unless check returns nil in time. What is seen last is
// told.
func eventually(t *testing.T, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	if err := until(t.Context(), limit, what, check); err != nil {
		t.Fatal(err)
	}
}
