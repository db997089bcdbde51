//go:build !linux

package harness

import (
	"context"
	"errors"
)

// RunInOwnNetwork and StartOwnNetwork work on Linux only.
func RunInOwnNetwork(string) (int, error) { return 1, errOnlyLinux }

// StartOwnNetwork works on Linux only.
func StartOwnNetwork(context.Context) error { return errOnlyLinux }

var errOnlyLinux = errors.New("a network namespace needs Linux")
