package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/pkg/api"
)

// servedGrace is how long nobody may have looked at what pods serve before that is
// taken for the way it is.
const servedGrace = 30 * time.Second

// uptakeCount is how far the certificates of now are taken up.
type uptakeCount struct {
	services int      // whose certificate somebody serves, or should
	serving  int      // of which every ready pod does
	waiting  []string // those of which not every pod does yet: NAMESPACE/NAME
	// left are those of which that will not change by itself: NAMESPACE/NAME: words.
	left []string
	// unseen: nobody has looked at any of them.
	unseen bool
	// last is the Service whose pods took it up last, and when.
	last string
	at   time.Time
}

// countUptake is pure. The consumers need be no more than those of Services whose
// reason is Stale.
func countUptake(services []serviceStatus, consumers []consumer) uptakeCount {
	u := uptakeCount{unseen: true}
	for _, s := range services {
		if s.Leaf == "" {
			continue
		}
		name, serving := s.Namespace+"/"+s.Name, s.Serving
		if serving != nil && serving.Reason != api.ServingNotVerified {
			u.unseen = false
		}
		if serving != nil && serving.Leaf == s.Leaf && serving.Reason == api.ServingNoConsumers {
			continue
		}
		u.services++
		switch {
		case serving == nil || serving.Leaf != s.Leaf || serving.Reason == api.ServingPropagating:
			u.waiting = append(u.waiting, name)
		case serving.isTrue():
			u.serving++
			if at := latest(serving.Changed, serving.Since); u.last == "" || at.After(u.at) {
				u.last, u.at = name, at
			}
		case serving.Reason == api.ServingStale && slices.ContainsFunc(consumers, func(c consumer) bool { return c.isRestartedFor(s) }):
			u.waiting = append(u.waiting, name)
		default:
			u.left = append(u.left, name+": "+serving.Message)
		}
	}
	return u
}

func latest(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}

// isRestartedFor reports whether the rotator may restart the pod, which is said to
// serve an older certificate of the Service.
func (c consumer) isRestartedFor(s serviceStatus) bool {
	return c.isRestarted() && c.namespace == s.Namespace && slices.Contains(c.secrets, s.Secret) && s.Serving.isStale(c.workload)
}

func (u uptakeCount) progress() string {
	return fmt.Sprintf("the pods of %d of %d Services serve their new certificate; not yet: %s", u.serving, u.services, shorten(u.waiting))
}

// end says what has become of the certificates.
func (u uptakeCount) end() string {
	var b strings.Builder
	switch {
	case u.services == 0:
		b.WriteString("served: no pod mounts a certificate\n")
	case u.serving == 0:
		b.WriteString("served: by no pod\n")
	case len(u.left) == 0:
		fmt.Fprintf(&b, "served: by every pod of %d Services; the last, of %s, since %s\n", u.serving, u.last, u.at.UTC().Format(time.RFC3339))
	default:
		fmt.Fprintf(&b, "served: by every pod of %d of %d Services; the last of these, of %s, since %s\n", u.serving, u.services, u.last, u.at.UTC().Format(time.RFC3339))
	}
	for _, line := range u.left {
		fmt.Fprintf(&b, "not served: %s\n", line)
	}
	return b.String()
}

// served follows what the rotator sees until every pod serves the certificate of
// now, or never will by itself.
func (w *watcher) served(ctx context.Context) error {
	begin := w.now()
	for {
		u, err := w.uptake(ctx)
		switch {
		case ctx.Err() != nil:
			return w.tooLong(ctx)
		case apierrors.IsForbidden(err):
			_, _ = fmt.Fprintf(w.out, "served: by whom is not known: %v\n", err)
			return nil
		case err != nil:
			return err
		case u.unseen && u.services > 0 && w.now().Sub(begin) > servedGrace:
			_, _ = fmt.Fprintln(w.out, "served: by whom is not known: the rotator does not look (--verify-consumers=false), or does not run")
			return nil
		case len(u.waiting) == 0:
			_, _ = fmt.Fprint(w.out, u.end())
			return nil
		}
		w.tell(u.progress())
		if !pause(ctx, servicesEvery) {
			return w.tooLong(ctx)
		}
	}
}

func (w *watcher) uptake(ctx context.Context) (uptakeCount, error) {
	services, err := w.cluster.services(ctx, "")
	if err != nil {
		return uptakeCount{}, err
	}
	var consumers []consumer
	if slices.ContainsFunc(services, func(s serviceStatus) bool { return s.Serving != nil && s.Serving.Reason == api.ServingStale }) {
		if consumers, err = w.cluster.consumers(ctx, "", services); err != nil {
			return uptakeCount{}, err
		}
	}
	return countUptake(services, consumers), nil
}
