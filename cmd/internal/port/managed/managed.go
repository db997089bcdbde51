// Package managed has a manager of controller-runtime serve a port. It is beside package port, which small
// programs have without a manager.
package managed

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/cmd/internal/port"
)

// Add listens on the address at once and has the manager serve there, whether the process
// leads or not, and before the caches have synced. When the manager ends, what has begun has
// so much time to end.
func Add(mgr manager.Manager, cfg port.Config, address string, grace time.Duration) error {
	s := port.New(cfg)
	l, err := s.Listen(address)
	if err != nil {
		return err
	}
	return mgr.Add(&manager.Server{Name: cfg.Name, Server: s.HTTP, Listener: l, ShutdownTimeout: &grace})
}
