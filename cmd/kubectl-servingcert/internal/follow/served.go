package follow

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// servedGrace is how long nobody may have looked at what pods serve before that is
// taken for the way it is.
const servedGrace = 30 * time.Second

// served follows what the rotator sees until every pod serves the certificate of
// now, or never will by itself.
func (w *Watcher) served(ctx context.Context) error {
	begin := w.Now()
	for {
		u, err := w.uptake(ctx)
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
		case len(u.Waiting) == 0:
			_, _ = fmt.Fprint(w.Out, u.End())
			return nil
		}
		w.tell(u.Progress())
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
	var consumers []judge.Consumer
	if slices.ContainsFunc(services, func(s judge.Service) bool { return s.Serving != nil && s.Serving.Reason == api.ServingStale }) {
		if consumers, err = w.Cluster.Consumers(ctx, "", services); err != nil {
			return judge.Uptake{}, err
		}
	}
	return judge.CountUptake(services, consumers), nil
}
