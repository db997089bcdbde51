package world

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/ca"
)

// look returns what is in the cluster.
func (w *World) look(ctx context.Context) (invariant.Cluster, error) {
	c := invariant.Cluster{Bundles: map[string]string{}, Domain: domain}
	services, err := w.Clientset.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, err
	}
	for _, svc := range services.Items {
		if svc.Annotations[api.AnnotationSecretName] != "" && svc.Name != conflict.name && svc.Namespace != unlabelled {
			c.Services = append(c.Services, svc)
		}
	}
	secrets, err := w.Clientset.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: api.LabelManagedBy + "=" + api.DefaultInstance})
	if err != nil {
		return c, err
	}
	c.Secrets = secrets.Items
	bundles, err := w.Clientset.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + api.BundleName})
	if err != nil {
		return c, err
	}
	for _, m := range bundles.Items {
		c.Bundles[m.Namespace] = m.Data[api.BundleKey]
	}
	status, err := w.CAStatus(ctx)
	c.Published = status.Bundle
	return c, err
}

// AwaitProblem waits until the signer says that it has that problem with its CA.
func (w *World) AwaitProblem(ctx context.Context, reason string) error {
	return installed.Until(ctx, "problem "+reason, func(ctx context.Context) error {
		status, err := w.CAStatus(ctx)
		if err == nil && status.Problem.Reason != reason {
			err = fmt.Errorf("the status says %q", status.Problem)
		}
		return err
	})
}

// NoteInterim waits for the CA that signs for servingcert's own namespace while the other is
// lost, and notes its key.
func (w *World) NoteInterim(ctx context.Context) error {
	return installed.Until(ctx, "an interim CA", func(ctx context.Context) error {
		secret, err := w.Clientset.CoreV1().Secrets(system).Get(ctx, api.CAInterimName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		state, err := ca.ParseState(secret.Data)
		for _, g := range state.Generations {
			w.Interim[hex.EncodeToString(g.Root.SubjectKeyId)] = true
		}
		return err
	})
}

// sound is nil if each Service has its one valid Secret.
func (w *World) sound(ctx context.Context) error {
	c, err := w.look(ctx)
	if err != nil {
		return err
	}
	return problem(invariant.Certificates(c, time.Now()))
}

// problem returns an error with the first of several violations, nil if there is none.
func problem(violations []string) error {
	if len(violations) == 0 {
		return nil
	}
	return fmt.Errorf("%d violations, the first: %s", len(violations), violations[0])
}

// Settle waits until the processes are ready, the work that was asked for is done, and each
// Service has its one valid Secret. It returns how long that took.
func (w *World) Settle(ctx context.Context, work *Work) (time.Duration, error) {
	start := time.Now()
	err := installed.Until(ctx, "it settles", func(ctx context.Context) error {
		if err := w.Ready(ctx); err != nil {
			return err
		}
		if err := work.done(ctx, w); err != nil {
			return err
		}
		if err := w.leads(ctx); err != nil {
			return err
		}
		return w.sound(ctx)
	})
	return time.Since(start), err
}

// leads is nil if one replica of signer and of each rotator leads, and no other.
func (w *World) leads(ctx context.Context) error {
	for _, kind := range []string{"signer", "trust", "rotator"} {
		n := 0
		for _, p := range w.Of(kind) {
			if p.Leads(ctx) {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d replicas of the %s lead", n, kind)
		}
	}
	return nil
}

// Foreign returns what was done to objects that are nobody's business.
func (w *World) Foreign(ctx context.Context) ([]string, error) {
	after, err := w.foreigners(ctx)
	return invariant.Foreign(w.foreign, after), err
}

// Admissions returns how creating pods went since it was last called, and the last refusal.
func (w *World) Admissions() (invariant.Admissions, string) { return w.stream.take() }

// Usage returns what the processes hold, the largest replica of each kind.
func (w *World) Usage(ctx context.Context) (map[string]invariant.Usage, error) {
	out := map[string]invariant.Usage{}
	for _, p := range w.Processes {
		m, err := p.Scrape(ctx)
		if err != nil {
			return nil, err
		}
		resident, err := process.RSS(p.PID())
		if err != nil {
			return nil, err
		}
		out[p.Kind] = out[p.Kind].Max(invariant.Usage{Goroutines: int(m.Sum("go_goroutines")), Resident: int64(resident)})
	}
	return out, nil
}

// Ends returns how often processes ended that nobody killed, and the last reason.
func (w *World) Ends() (n int, last string) {
	for _, p := range w.Processes {
		if ends := p.Ends(); len(ends) > 0 {
			n += len(ends)
			last = p.Name() + ": " + ends[len(ends)-1]
		}
	}
	return n, last
}

// isReady reports whether a Service has its certificate.
func isReady(svc *corev1.Service) bool {
	c := api.Condition(svc, api.ConditionReady)
	_, named := state.LeafOf(svc)
	return c != nil && c.Status == metav1.ConditionTrue && named
}
