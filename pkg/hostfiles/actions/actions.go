// Package actions does what the configuration says after a switch, and nothing else.
package actions

import (
	"context"
	"errors"
	"fmt"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// Run runs the action of a store once, and returns how it failed, or nil. attempt names this time: the
// same again, if the process was killed in it.
// It takes no longer than the action's timeout, and a little.
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
		return fmt.Errorf("it took longer than %s: %w", s.Action.Timeout, err)
	}
	return err
}
