package follow

import (
	"context"
	"errors"
	"fmt"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// Leaves are the leaves of Services, by NAMESPACE/NAME.
type Leaves map[string]string

// Outcome is the last observed state of a rotation.
type Outcome struct {
	CA     *status.CA     // nil: none was read
	Served *status.Served // nil: not reached
}

// Rotation follows a request until the certificates are replaced and served. before
// holds the earlier leaves; only requests that break clients need them. The outcome is
// valid even with an error.
func (w *Watcher) Rotation(ctx context.Context, wanted api.RotateRequest, before Leaves) (Outcome, error) {
	defer w.Bar.Clear()
	err := w.until(ctx, func(s status.CA) (bool, error) {
		switch answered, refused := s.Answers(wanted); {
		case !answered:
			return false, nil
		case refused:
			return false, errors.New(s.RotationOutcome)
		}
		return s.SignsAlone(), nil
	})
	if err != nil {
		return w.seen, err
	}
	if w.Identities {
		return w.seen, w.identities(ctx, wanted.Breaks())
	}
	if !wanted.Breaks() {
		w.settled(ctx)
	} else if err := w.replaced(ctx, before); err != nil {
		return w.seen, err
	}
	if err = w.served(ctx, wanted.Breaks()); err == nil {
		err = w.clients(ctx)
	}
	return w.seen, err
}

// Generation follows until the generation signs, and the certificates are replaced
// and served. The outcome is valid even with an error.
func (w *Watcher) Generation(ctx context.Context, number int) (Outcome, error) {
	defer w.Bar.Clear()
	err := w.until(ctx, func(s status.CA) (bool, error) { return s.Generation >= number && s.SignsAlone(), nil })
	if err != nil {
		return w.seen, err
	}
	w.settled(ctx)
	if err = w.served(ctx, false); err == nil {
		err = w.clients(ctx)
	}
	return w.seen, err
}

// Imported follows until the CA with this fingerprint of its root has been imported and
// signs. It returns an error if the signer refuses the CA.
func (w *Watcher) Imported(ctx context.Context, root string) error {
	defer w.Bar.Clear()
	return w.until(ctx, func(s status.CA) (bool, error) { return s.Imported(root) })
}

// Processes returns the processes that perform a rotation of the CA, or of that for identities.
func Processes(identities bool) []string {
	if identities {
		return []string{"signer"}
	}
	return []string{"signer", "trust"}
}

// status returns the ConfigMap of the CA.
func (w *Watcher) status() string {
	if w.Identities {
		return api.ClientCAStatusName
	}
	return api.CAStatusName
}

// until reads the status until done returns true, and prints each change.
func (w *Watcher) until(ctx context.Context, done func(status.CA) (bool, error)) error {
	for {
		cm, err := w.Cluster.StatusOf(ctx, w.Namespace, w.status())
		missing := cluster.NotInstalledError{}
		switch {
		case ctx.Err() != nil:
			return w.tooLong(ctx)
		case errors.As(err, &missing): // the signer is about to write it again
		case err != nil:
			return err
		default:
			ca := status.ParseCA(cm.Data)
			w.seen.CA = &ca
			over, err := done(ca)
			if err != nil {
				return err
			}
			w.print(ca.Progress())
			if ca.Replaced != nil && ca.Certificates != nil {
				w.Bar.Set(*ca.Replaced, *ca.Certificates, fmt.Sprintf("certificates are signed by generation %d", ca.Generation))
			}
			if over {
				return nil
			}
		}
		if err := w.stalled(ctx, Processes(w.Identities)...); err != nil {
			return err
		}
		if !pause(ctx, w.Timing.PollInterval) {
			return w.tooLong(ctx)
		}
	}
}

// stalled returns an error if the rotation does not continue because processes are not running.
func (w *Watcher) stalled(ctx context.Context, names ...string) error {
	if err := w.gone(ctx, names...); err != nil {
		return fmt.Errorf("not done: %w. The rotation continues when one runs. Last status: %s", err, status.Dash(w.last))
	}
	return nil
}

// settled waits until the count is up to date, and prints the number of replaced certificates.
func (w *Watcher) settled(ctx context.Context) {
	ca := *w.seen.CA
	defer func() { w.seen.CA = &ca }()
	ctx, cancel := context.WithTimeout(ctx, w.Timing.Settle)
	defer cancel()
	for ca.Behind() || ca.Certificates == nil { // a signer that has just become the leader has not counted yet
		if !pause(ctx, w.Timing.PollInterval) {
			break
		}
		cm, err := w.Cluster.CAConfigMap(ctx, w.Namespace)
		if err != nil {
			break
		}
		ca = status.ParseCA(cm.Data)
	}
	switch {
	case ca.Behind():
		_, _ = fmt.Fprintf(w.Out, "done, except for %d of %s: kubectl servingcert status -A lists them\n", *ca.Certificates-*ca.Replaced, api.Count(*ca.Certificates, "certificate"))
	case ca.Certificates != nil:
		_, _ = fmt.Fprintf(w.Out, "done: %s signed by generation %d\n", status.All(*ca.Certificates, "certificate"), ca.Generation)
	default:
		_, _ = fmt.Fprintf(w.Out, "done: generation %d signs\n", ca.Generation)
	}
}

// replaced waits until every Service that had a leaf has another one, or is refused.
func (w *Watcher) replaced(ctx context.Context, before Leaves) error {
	for {
		services, err := w.Cluster.SignedServices(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return w.tooLong(ctx)
			}
			return err
		}
		had, have := 0, 0
		for _, s := range services {
			old := before[s.String()]
			if old == "" || s.Refused() {
				continue
			}
			had++
			if s.Leaf != "" && s.Leaf != old {
				have++
			}
		}
		if had == 0 {
			_, _ = fmt.Fprintln(w.Out, "done: no Service had a certificate in a Secret")
			return nil
		}
		if have == had {
			_, _ = fmt.Fprintf(w.Out, "done: a new certificate for each Service that had one (%d); pods have the new files within seconds (92 s at most)\n", had)
			return nil
		}
		w.print(fmt.Sprintf("%d of %d Services have a new certificate", have, had))
		w.Bar.Set(have, had, "Services have a new certificate")
		if err := w.stalled(ctx, "signer"); err != nil {
			return err
		}
		if !pause(ctx, w.Timing.Services) {
			return w.tooLong(ctx)
		}
	}
}

// clients prints the pods that may hold a bundle without the root of the signing generation, or why they are unknown.
func (w *Watcher) clients(ctx context.Context) error {
	cm, err := w.Cluster.CAConfigMap(ctx, w.Namespace)
	if err != nil {
		return err
	}
	old, notSeen, err := w.Cluster.OldClients(ctx, "", cm.Data)
	if notSeen != "" {
		_, _ = fmt.Fprintf(w.Out, "not seen: %s\n", notSeen)
	}
	for _, o := range old {
		if o.Generation == w.seen.CA.Generation {
			_, _ = fmt.Fprintf(w.Out, "clients: %s\n", o)
		}
	}
	return err
}
