package actions

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// systemBus connects to the system bus: $DBUS_SYSTEM_BUS_ADDRESS, or the default socket.
func systemBus(ctx context.Context) func() (*godbus.Conn, error) {
	return func() (*godbus.Conn, error) { return godbus.ConnectSystemBus(godbus.WithContext(ctx)) }
}

// systemd reloads or restarts a unit, and waits until the job has ended.
func systemd(ctx context.Context, s *hostfiles.Systemd, bus func(context.Context) func() (*godbus.Conn, error)) error {
	conn, err := dbus.NewConnection(bus(ctx))
	if err != nil {
		return fmt.Errorf("connect to D-Bus: %w", err)
	}
	defer conn.Close()
	ask := conn.ReloadUnitContext
	if s.Verb == "restart" {
		ask = conn.RestartUnitContext
	}
	done := make(chan string, 1)
	if _, err := ask(ctx, s.Unit, "replace", done); err != nil {
		return fmt.Errorf("%s unit %q: %w", s.Verb, s.Unit, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s unit %q: %w", s.Verb, s.Unit, ctx.Err())
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("%s unit %q: the job ended as %q", s.Verb, s.Unit, result)
		}
	}
	return nil
}
