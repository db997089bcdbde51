package world

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Asks is how many Services are created, and how many renewed, in each fault.
const Asks = 10

// Work is what people ask for during a fault. The API server may be away then: they try
// again until it answers.
type Work struct {
	asking sync.WaitGroup
	ctx    context.Context // ends what is not asked for yet
	cancel context.CancelFunc

	mu      sync.Mutex
	created map[place]time.Time
	renewed map[place]string // the leaf before
	slowest time.Duration    // from a new Service to its Secret
}

// StartWork creates Services, which are named after the fault, and asks for renewals, spread
// over d.
func (w *World) StartWork(ctx context.Context, fault string, d time.Duration) *Work {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	work := &Work{ctx: ctx, cancel: cancel, created: map[place]time.Time{}, renewed: map[place]string{}}
	w.Ask(work, fault, d)
	return work
}

// Ask asks for as much again.
func (w *World) Ask(work *Work, fault string, d time.Duration) {
	first := w.renewed
	w.renewed += Asks
	work.asking.Go(func() {
		for i := range Asks {
			at := place{namespaceOf(i % w.options.Namespaces), fmt.Sprintf("new-%s-%d", fault, i)}
			work.insist(func(ctx context.Context) error { return w.ask(ctx, work, at) })
			renew := w.places[(first+i)%len(w.places)]
			work.insist(func(ctx context.Context) error { return w.renew(ctx, work, renew) })
			process.Sleep(work.ctx, d/Asks)
		}
	})
}

// insist does something until the API server has heard of it.
func (work *Work) insist(do func(ctx context.Context) error) {
	for again := true; again; {
		ctx, cancel := context.WithTimeout(work.ctx, attempt)
		again = do(ctx) != nil && process.Sleep(work.ctx, poll)
		cancel()
	}
}

func (w *World) ask(ctx context.Context, work *Work, at place) error {
	_, err := w.Clientset.CoreV1().Services(at.namespace).Create(ctx, serviceOf(at, false), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // an answer was lost
		return err
	}
	work.mu.Lock()
	defer work.mu.Unlock()
	work.created[at] = time.Now()
	return nil
}

// renew asks for a new certificate, as kubectl servingcert renew does.
func (w *World) renew(ctx context.Context, work *Work, at place) error {
	services := w.Clientset.CoreV1().Services(at.namespace)
	svc, err := services.Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	before, _ := state.LeafOf(svc)
	// Times are in whole seconds: what was issued in this one counts as later.
	after := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationRenewAfter: after}}})
	if err != nil {
		return err
	}
	if _, err := services.Patch(ctx, at.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	work.mu.Lock()
	defer work.mu.Unlock()
	work.renewed[at] = before
	return nil
}

// Wait waits until all was asked for.
func (work *Work) Wait() { work.asking.Wait() }

// Forget forgets what was asked for: the cluster does not know of it any more.
func (work *Work) Forget() {
	work.mu.Lock()
	defer work.mu.Unlock()
	clear(work.created)
	clear(work.renewed)
}

// End gives up what was not asked for yet, and returns what was: Services created and
// renewed, and the longest time from a new one to its Secret.
func (work *Work) End() (created, renewed int, slowest time.Duration) {
	work.cancel()
	work.asking.Wait()
	work.mu.Lock()
	defer work.mu.Unlock()
	return len(work.created), len(work.renewed), work.slowest
}

// done is nil if each Service that was created is Ready, and each renewal took place.
func (work *Work) done(ctx context.Context, w *World) error {
	work.mu.Lock()
	defer work.mu.Unlock()
	for at := range work.created {
		svc, err := w.Clientset.CoreV1().Services(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !isReady(svc) {
			return fmt.Errorf("Service %s/%s is not Ready", at.namespace, at.name)
		}
		secret, err := w.Clientset.CoreV1().Secrets(at.namespace).Get(ctx, at.name+"-tls", metav1.GetOptions{})
		if err != nil {
			return err
		}
		work.slowest = max(work.slowest, secret.CreationTimestamp.Sub(svc.CreationTimestamp.Time))
	}
	for at, before := range work.renewed {
		svc, err := w.Clientset.CoreV1().Services(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if leaf, _ := state.LeafOf(svc); leaf == before || leaf == "" {
			return fmt.Errorf("Service %s/%s was not renewed", at.namespace, at.name)
		}
	}
	return nil
}

// AwaitRotation waits until the generation that was asked for signs.
func (w *World) AwaitRotation(ctx context.Context, reason string) error {
	return installed.Until(ctx, "the new generation signs", func(ctx context.Context) error {
		status, err := w.CAStatus(ctx)
		if err != nil {
			return err
		}
		return installed.Rotated(&status, api.RotateForce, reason)
	})
}
