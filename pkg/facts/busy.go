package facts

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// Reconciler wraps the reconciler of the named controller, and reports the object in progress to package
// heartbeat. Every controller uses it, so that readiness can detect a stuck worker.
func Reconciler(name string, r reconcile.Reconciler) reconcile.Reconciler {
	worker := `controller "` + name + `"`
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		defer heartbeat.Process.Begin(worker, request.NamespacedName)()
		return r.Reconcile(ctx, request)
	})
}
