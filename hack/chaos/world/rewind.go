package world

import (
	"context"
	"os"
)

// Backup copies what etcd holds, as a person does who has no other tool: API server and etcd
// are stopped meanwhile. It returns the copy.
func (w *World) Backup(ctx context.Context) (string, error) {
	copied := w.path("etcd-backup")
	if err := os.RemoveAll(copied); err != nil {
		return "", err
	}
	w.ControlPlane.StopAPIServer()
	w.ControlPlane.StopEtcd()
	if err := os.CopyFS(copied, os.DirFS(w.ControlPlane.EtcdDir())); err != nil {
		return "", err
	}
	return copied, w.startAgain(ctx)
}

// Restore has etcd hold what it held when the copy was made, and restarts the controllers of
// Kubernetes, as its documentation says. The other processes go on.
func (w *World) Restore(ctx context.Context, copied string) error {
	w.ControlPlane.StopAPIServer()
	w.ControlPlane.StopEtcd()
	w.Observer.Rewound()
	dir := w.ControlPlane.EtcdDir()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // etcd insists
		return err
	}
	w.ControlPlane.StopControllerManager()
	if err := w.startAgain(ctx); err != nil {
		return err
	}
	return w.ControlPlane.StartControllerManager(ctx)
}

func (w *World) startAgain(ctx context.Context) error {
	if err := w.ControlPlane.StartEtcd(ctx); err != nil {
		return err
	}
	return w.ControlPlane.StartAPIServer(ctx)
}
