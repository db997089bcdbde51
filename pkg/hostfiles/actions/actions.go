// Package actions runs the configured action of a store.
package actions

import (
	"context"
	"errors"
	"fmt"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// Run runs the action of a store once, within the action's timeout. attempt identifies the attempt. After a crash,
// the interrupted attempt runs again under the same name.
func Run(ctx context.Context, s *hostfiles.Store, attempt string) error {
	ctx, cancel := context.WithTimeout(ctx, s.Action.Timeout)
	defer cancel()
	var err error
	switch a := s.Action; {
	case a.Signal != nil:
		err = signal(a.Signal)
	case a.Systemd != nil:
		err = systemd(ctx, a.Systemd, systemBus)
	case a.Exec != nil:
		err = execute(ctx, a.Exec, s.Name)
	case a.StaticPod != nil:
		err = staticPod(a.StaticPod.Manifest, attempt)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("timed out after %s: %w", s.Action.Timeout, err)
	}
	return err
}
