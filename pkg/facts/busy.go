package facts

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// Reconciler returns the reconciler of the controller with the name, and makes seen what it is
// busy with. Every controller has one: readiness knows by it that a worker is stuck.
func Reconciler(name string, r reconcile.Reconciler) reconcile.Reconciler {
	worker := `controller "` + name + `"`
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		defer heartbeat.Process.Begin(worker, request.NamespacedName)()
		return r.Reconcile(ctx, request)
	})
}
