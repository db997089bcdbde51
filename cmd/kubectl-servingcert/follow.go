package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// How often a rotation is looked at. Services are listed, which is dearer.
const (
	lookEvery     = time.Second
	servicesEvery = 5 * time.Second
	// settleTime is how long the count of certificates may lag behind the phase.
	settleTime = 15 * time.Second
)

// leaves are the leaves of Services, by NAMESPACE/NAME.
type leaves map[string]string

// watcher follows the CA and tells of each change.
type watcher struct {
	cluster   *cluster
	namespace string
	out       io.Writer
	now       func() time.Time
	timeout   time.Duration
	told      string // the last line
}

// rotation follows a request until the certificates are replaced and served.
func (w *watcher) rotation(ctx context.Context, wanted api.RotateRequest, before leaves) error {
	status, err := w.until(ctx, func(s caStatus) (bool, error) {
		switch {
		case s.facts.Rotation != wanted:
			return false, nil
		case s.facts.RotationOutcome.Refused:
			return false, errors.New(s.RotationOutcome)
		}
		return signsAlone(s), nil
	})
	if err != nil {
		return err
	}
	if !breaks(wanted) {
		w.settled(ctx, status)
	} else if err := w.replaced(ctx, before); err != nil {
		return err
	}
	return w.served(ctx)
}

// generation follows until the generation signs, and the certificates are replaced
// and served.
func (w *watcher) generation(ctx context.Context, number int) error {
	status, err := w.until(ctx, func(s caStatus) (bool, error) { return s.Generation >= number && signsAlone(s), nil })
	if err != nil {
		return err
	}
	w.settled(ctx, status)
	return w.served(ctx)
}

// signsAlone reports whether no certificate is being replaced.
func signsAlone(s caStatus) bool { return s.Phase == api.PhaseRetire || s.Phase == api.PhaseStable }

// until looks at the status until done says so, and tells of its changes.
func (w *watcher) until(ctx context.Context, done func(caStatus) (bool, error)) (caStatus, error) {
	for {
		cm, err := w.cluster.caConfigMap(ctx, w.namespace)
		missing := notInstalledError{}
		switch {
		case ctx.Err() != nil:
			return caStatus{}, w.tooLong(ctx)
		case errors.As(err, &missing): // it is about to be written again
		case err != nil:
			return caStatus{}, err
		default:
			status := parseCA(cm.Data)
			over, err := done(status)
			if err != nil {
				return status, err
			}
			w.tell(status.progress())
			if over {
				return status, nil
			}
		}
		if !pause(ctx, lookEvery) {
			return caStatus{}, w.tooLong(ctx)
		}
	}
}

// settled waits until the count is up to date and says how many were replaced.
func (w *watcher) settled(ctx context.Context, status caStatus) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for status.behind() {
		if !pause(ctx, lookEvery) {
			break
		}
		cm, err := w.cluster.caConfigMap(ctx, w.namespace)
		if err != nil {
			break
		}
		status = parseCA(cm.Data)
	}
	switch {
	case status.behind():
		_, _ = fmt.Fprintf(w.out, "done, but for %d of %d certificates: kubectl servingcert status -A names them\n", *status.Certificates-*status.Replaced, *status.Certificates)
	case status.Certificates != nil:
		_, _ = fmt.Fprintf(w.out, "done: all %d certificates are signed by generation %d\n", *status.Certificates, status.Generation)
	default:
		_, _ = fmt.Fprintf(w.out, "done: generation %d signs\n", status.Generation)
	}
}

// behind reports whether there are certificates of older generations.
func (s caStatus) behind() bool {
	return s.Replaced != nil && s.Certificates != nil && *s.Replaced < *s.Certificates
}

// replaced waits until every Service that had a leaf has another.
func (w *watcher) replaced(ctx context.Context, before leaves) error {
	for {
		services, err := w.cluster.services(ctx, "")
		if err != nil {
			if ctx.Err() != nil {
				return w.tooLong(ctx)
			}
			return err
		}
		had, have := 0, 0
		for _, s := range services {
			old := before[s.Namespace+"/"+s.Name]
			if old == "" {
				continue
			}
			had++
			if s.Leaf != "" && s.Leaf != old {
				have++
			}
		}
		if have == had {
			_, _ = fmt.Fprintf(w.out, "done: all %d Services that had a certificate have a new one; pods have the new files within 92 s\n", had)
			return nil
		}
		w.tell(fmt.Sprintf("%d of %d Services have a new certificate", have, had))
		if !pause(ctx, servicesEvery) {
			return w.tooLong(ctx)
		}
	}
}

// tell prints a line that differs from the one before.
func (w *watcher) tell(line string) {
	if line != w.told {
		_, _ = fmt.Fprintf(w.out, "%s  %s\n", w.now().UTC().Format(time.TimeOnly), line)
	}
	w.told = line
}

// tooLong says that this command ends before what it follows does.
func (w *watcher) tooLong(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not done after %s; it goes on without this command. Last: %s", w.timeout, dash(w.told))
	}
	return fmt.Errorf("stopped looking; it goes on without this command. Last: %s", dash(w.told))
}

// pause waits, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
