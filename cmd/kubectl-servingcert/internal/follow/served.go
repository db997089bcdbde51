package follow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// served follows the rotator's reports until every pod serves the current certificate, or
// needs manual action. It does not wait for certificates of pods' own keys, which are replaced
// within their lifetime or, if the rotation breaks clients, with their pods.
func (w *Watcher) served(ctx context.Context, breaks bool) error {
	begin := w.Now()
	for {
		u, err := w.uptake(ctx)
		w.record(u, err)
		switch {
		case ctx.Err() != nil:
			return w.tooLong(ctx)
		case apierrors.IsForbidden(err):
			_, _ = fmt.Fprintf(w.Out, "served: unknown: %v\n", err)
			return nil
		case err != nil:
			return err
		case u.Unseen && u.Services > 0 && w.Now().Sub(begin) > w.Timing.Grace:
			_, _ = fmt.Fprintln(w.Out, "served: unknown: "+status.NotVerified)
			_, _ = fmt.Fprint(w.Out, u.PodKeysEnd(breaks))
			return nil
		case u.Over():
			_, _ = fmt.Fprint(w.Out, u.End()+u.PodKeysEnd(breaks))
			return nil
		}
		if err := w.gone(ctx, "rotator"); err != nil {
			w.seen.Served.Unknown = err.Error()
			_, _ = fmt.Fprintf(w.Out, "served: unknown: %v\n", err)
			return nil
		}
		w.print(u.Progress())
		w.Bar.Set(u.Serving, u.Services, "Services are served by all of their pods")
		if !pause(ctx, w.Timing.Services) {
			return w.tooLong(ctx)
		}
	}
}

// record records the last uptake, or why it cannot be read.
func (w *Watcher) record(u status.Uptake, err error) {
	switch {
	case err == nil:
		served := u.Served()
		w.seen.Served = &served
	case apierrors.IsForbidden(err):
		w.seen.Served = &status.Served{Unknown: api.Escape(err.Error())}
	}
}

func (w *Watcher) uptake(ctx context.Context) (status.Uptake, error) {
	services, err := w.Cluster.SignedServices(ctx)
	if err != nil {
		return status.Uptake{}, err
	}
	return status.CountUptake(services, w.Now()), nil
}
