package follow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
)

// servedGrace is how long nothing may change before that is taken for the end, where
// it is not known that anything is under way: nobody has looked at what pods serve,
// all that is left is held, or the report about it is missing.
const servedGrace = 30 * time.Second

// served follows what the rotator sees until every pod serves the certificate of
// now, or never will by itself. It does not wait for a restart that is held until
// somebody does something: that may be tomorrow.
func (w *Watcher) served(ctx context.Context) error {
	begin := w.Now()
	changed, last := begin, ""
	for {
		u, err := w.uptake(ctx)
		if progress := u.Progress(); progress != last {
			changed, last = w.Now(), progress
		}
		switch {
		case ctx.Err() != nil:
			return w.tooLong(ctx)
		case apierrors.IsForbidden(err):
			_, _ = fmt.Fprintf(w.Out, "served: unknown: %v\n", err)
			return nil
		case err != nil:
			return err
		case u.Unseen && u.Services > 0 && w.Now().Sub(begin) > servedGrace:
			_, _ = fmt.Fprintln(w.Out, "served: unknown: the rotator does not verify what pods serve (--verify-consumers=false), or is not running")
			return nil
		case u.Over(), len(u.Waiting) == 0 && w.Now().Sub(changed) > servedGrace:
			_, _ = fmt.Fprint(w.Out, u.End())
			return nil
		}
		w.print(u.Progress())
		w.Bar.Set(u.Serving, u.Services, "Services are served by all of their pods")
		if !pause(ctx, servicesEvery) {
			return w.tooLong(ctx)
		}
	}
}

func (w *Watcher) uptake(ctx context.Context) (judge.Uptake, error) {
	services, err := w.Cluster.Services(ctx, "")
	if err != nil {
		return judge.Uptake{}, err
	}
	if err := w.Cluster.AddStale(ctx, w.Namespace, services); err != nil {
		return judge.Uptake{}, err
	}
	return judge.CountUptake(services), nil
}
