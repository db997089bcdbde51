package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/pkg/api"
)

// backlog is what others wait for while all certificates of a namespace are replaced.
type backlog struct {
	queued float64 // renewals, when it was first looked
	took   time.Duration
	made   []time.Duration // a Service of the same namespace, until its Secret is there
	healed []time.Duration // a Secret of the same namespace that is deleted, until it is there again
}

// probePause is the time between two probes: they are not to be what the signer does.
const probePause = 200 * time.Millisecond

// behindRenewals distrusts the CA, and makes Services and deletes Secrets as long as the
// signer replaces what it has issued.
func (b *bench) behindRenewals(ctx context.Context) (r backlog, err error) {
	p, err := b.startSigner(ctx)
	if err != nil {
		return r, err
	}
	defer p.Kill()
	if err := p.WaitReconciled(ctx, b.n+b.single); err != nil {
		return r, err
	}
	if err := b.RotateCA(ctx, api.RotateDistrust); err != nil { // which replaces every certificate at once
		return r, err
	}
	depth := func() (float64, error) {
		m, err := p.Scrape()
		return m.Sum("workqueue_depth", "controller", measure.TheSigner), err
	}
	err = p.Wait(ctx, "renewals in the queue", func() (time.Duration, bool) {
		r.queued, err = depth()
		return 10 * time.Millisecond, err == nil && r.queued >= float64(b.n)/2
	})
	if err != nil {
		return r, err
	}
	start := time.Now()
	// Every other probe deletes the Secret of a Service that exists, from the last one on.
	for i := b.n; ; i++ {
		left, err := depth()
		if err != nil {
			return r, err
		}
		if left < float64(b.workers) {
			break
		}
		made, err := b.untilAdded(ctx, i, func() error { return b.MakeService(ctx, coldNamespace, i, true) })
		if err != nil {
			return r, fmt.Errorf("a new Service: %w", err)
		}
		old := 2*b.n - 1 - i
		healed, err := b.untilAdded(ctx, old, func() error {
			return b.Client.CoreV1().Secrets(coldNamespace).Delete(ctx, secretName(old), metav1.DeleteOptions{})
		})
		if err != nil {
			return r, fmt.Errorf("a deleted Secret: %w", err)
		}
		r.made, r.healed = append(r.made, made), append(r.healed, healed)
		time.Sleep(probePause)
	}
	r.took = time.Since(start)
	if len(r.made) == 0 {
		return r, errors.New("the signer had replaced all before the first probe: take a larger N")
	}
	return r, p.Stop()
}

func secretName(i int) string { return measure.Name(i) + "-tls" }

// untilAdded returns how long it takes from the beginning of what is done until the Secret of
// the i-th Service is made.
func (b *bench) untilAdded(ctx context.Context, i int, do func() error) (time.Duration, error) {
	secrets := b.Client.CoreV1().Secrets(coldNamespace)
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", secretName(i)).String()}
	list, err := secrets.List(ctx, only)
	if err != nil {
		return 0, err
	}
	only.ResourceVersion = list.ResourceVersion // what is there is no change
	w, err := secrets.Watch(ctx, only)
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	start := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	for event := range w.ResultChan() {
		if event.Type == watch.Added {
			return time.Since(start), nil
		}
	}
	return 0, errors.New("the watch of the Secret ended")
}
