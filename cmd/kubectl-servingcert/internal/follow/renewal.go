package follow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// Renewal waits until the condition of each Service names another leaf than before. It
// records the states in all.
func (w *Watcher) Renewal(ctx context.Context, all []status.Renewal) error {
	defer w.Bar.Clear()
	began := w.Now()
	for {
		if err := w.observe(ctx, all); err != nil && ctx.Err() == nil {
			return err
		}
		waiting := waitedFor(all)
		w.Bar.Set(len(all)-len(waiting), len(all), "certificates are renewed")
		if len(waiting) == 0 {
			return nil
		}
		if err := w.gone(ctx, "signer"); err != nil {
			return fmt.Errorf("not renewed: %w. The requests remain, and are answered when a signer runs", err)
		}
		if !pause(ctx, w.Timing.PollInterval) {
			return fmt.Errorf("not renewed after %s: %s", w.Now().Sub(began).Round(time.Second), describe(waiting))
		}
	}
}

func waitedFor(all []status.Renewal) []status.Renewal {
	var waiting []status.Renewal
	for _, r := range all {
		if r.State == status.RenewalRequested {
			waiting = append(waiting, r)
		}
	}
	return waiting
}

// observe reads the Services whose renewal is open, and prints those that are done.
func (w *Watcher) observe(ctx context.Context, all []status.Renewal) error {
	for i := range all {
		r := &all[i]
		if r.State != status.RenewalRequested {
			continue
		}
		svc, err := w.Cluster.Client.CoreV1().Services(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			r.State = status.RenewalDeleted
			_, _ = fmt.Fprintf(w.Out, "%s was deleted\n", r)
			continue
		}
		if err != nil {
			return err
		}
		now, _ := status.ServiceOf(svc)
		if *r = r.Observe(now); r.State == status.RenewalDone {
			_, _ = fmt.Fprintf(w.Out, "%s has a new certificate in Secret %s: leaf %s\n", r, r.Secret, status.Short(r.Leaf))
		}
	}
	return nil
}

// describe returns the conditions of the first few Services.
func describe(waiting []status.Renewal) string {
	var texts []string
	for _, r := range waiting {
		if r.Ready == "" {
			texts = append(texts, fmt.Sprintf("%s (no condition Ready: no signer has read the Service, or its namespace is not labelled)", r))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s (Ready=%s %s: %s)", r, status.Dash(r.Ready), status.Dash(r.Reason), status.Dash(r.Message)))
	}
	return api.ListedTexts(texts, 5)
}
