// Package managed runs a port in a manager of controller-runtime. It is separate from package port, which
// small programs use without a manager.
package managed

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/cmd/internal/port"
)

// Add listens on the address at once and makes the manager serve there, leading or not, before the
// caches have synced. When the manager ends, requests in flight have grace to complete.
func Add(mgr manager.Manager, cfg port.Config, address string, grace time.Duration) error {
	s := port.New(cfg)
	l, err := s.Listen(address)
	if err != nil {
		return err
	}
	return mgr.Add(&manager.Server{Name: cfg.Name, Server: s.HTTP, Listener: l, ShutdownTimeout: &grace})
}
