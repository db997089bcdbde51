package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/hack/scenes/invariant"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	attempt = 10 * time.Second       // limit of one request, where requests are repeated
	again   = 250 * time.Millisecond // between two attempts of a request. Controllers also retry soon after their first refused pod
	given   = 20 * time.Second       // how long a pod may be refused, not counting the time without an API server
	kept    = 10                     // during a fault, one in this many pods is stored for a moment. The others are dry runs
)

// lane is a number of workers that repeat the same operation.
type lane struct {
	operation string
	workers   int
	pause     time.Duration // of a worker between two operations; 0 if it does only one
	after     time.Duration // before the first; the workers of a lane without a pause start one after the other within it
	// do does the operation and returns its measured duration.
	do func(k *work, ctx context.Context, j job) (time.Duration, error)
}

// job identifies one operation of a worker.
type job struct {
	name      string // in the names of objects
	worker, n int
}

// place is a Service of a tenant.
type place struct {
	*installed.Tenant
	service string
}

// samples are the measurements of a lane.
type samples struct {
	took   []time.Duration
	failed int   // operations that ended with an error, or not in time
	err    error // the last
}

// errLate is the cause of a context that ended before the awaited state.
var errLate = errors.New("not in time")

// work is the work of the tenants during a scene.
type work struct {
	*world
	scene     *scene
	ctx       context.Context
	beginning context.Context // when it ends, no operation is started any more
	stop      context.CancelFunc
	doing     context.Context // when it ends, operations that are done once are late
	late      context.CancelCauseFunc
	once      sync.WaitGroup // operations that are done once
	going     sync.WaitGroup // all others

	mu      sync.Mutex
	samples map[string]samples           // by operation
	failed  [invariant.Refused + 1]int   // repeated requests, by outcome
	last    [invariant.Refused + 1]error // the last error, by outcome
}

// startWork starts the work of the tenants, which continues until end.
func (w *world) startWork(ctx context.Context, s *scene) *work {
	k := &work{world: w, scene: s, ctx: ctx, samples: map[string]samples{}}
	k.beginning, k.stop = context.WithCancel(ctx)
	k.doing, k.late = context.WithCancelCause(ctx)
	k.ask(s.name)
	k.start(s.name, &k.going, func(l lane) bool { return l.pause > 0 })
	return k
}

// ask starts the operations that are done once, while a fault lasts.
func (k *work) ask(name string) {
	k.start(name, &k.once, func(l lane) bool { return l.pause == 0 })
}

func (k *work) start(name string, running *sync.WaitGroup, chosen func(lane) bool) {
	for _, l := range k.lanes {
		for n := 0; n < l.workers && chosen(l); n++ {
			running.Go(func() { k.run(l, job{name: name, worker: n}) })
		}
	}
}

func (k *work) run(l lane, j job) {
	ctx, pause := k.ctx, l.after
	if l.pause == 0 {
		ctx, pause = k.doing, l.after*time.Duration(j.worker)/time.Duration(l.workers)
	}
	limit := patience
	if k.scene.tolerates > invariant.Done {
		limit = 2 * patience // a fault may last as long
	}
	for ; process.Sleep(k.beginning, pause); j.n++ {
		op, cancel := context.WithTimeoutCause(ctx, limit, errLate)
		took, err := l.do(k, op, j)
		k.measured(l.operation, took, err)
		cancel()
		if pause = l.pause; pause == 0 {
			return
		}
	}
}

// measured records the duration of an operation, or its error.
func (k *work) measured(operation string, took time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.samples[operation]
	if err == nil {
		s.took = append(s.took, took)
	} else {
		s.failed, s.err = s.failed+1, err
	}
	k.samples[operation] = s
}

// mended waits for the operations that are done once. They fail if they take longer than patience
// from this call.
func (k *work) mended() {
	defer time.AfterFunc(patience, func() { k.late(errLate) }).Stop()
	k.once.Wait()
}

// end waits until every started operation is finished.
func (k *work) end() {
	k.stop()
	k.once.Wait()
	k.going.Wait()
	k.late(nil)
}

// insist makes a request, and repeats it while it fails in a way that the scene tolerates.
func (k *work) insist(ctx context.Context, request func(ctx context.Context) error) error {
	if k.scene.tolerates == invariant.Done {
		return request(ctx)
	}
	for refused := time.Duration(0); ; {
		try, cancel := context.WithTimeout(ctx, attempt)
		err := request(try)
		cancel()
		outcome := invariant.Classify(err)
		if outcome == invariant.Done || ctx.Err() != nil {
			return err
		}
		if outcome == invariant.Refused {
			refused += again
		}
		k.mu.Lock()
		k.failed[outcome]++
		k.last[outcome] = err
		k.mu.Unlock()
		if outcome > k.scene.tolerates || refused > given || !process.Sleep(ctx, again) {
			return err
		}
	}
}

// createConfigMap makes a request in which servingcert has no part. If it takes longer under attack,
// the API server and the machine are the cause.
func (k *work) createConfigMap(ctx context.Context, j job) (time.Duration, error) {
	t, o := k.tenants[0], &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("bare-", j.n)}}
	start := time.Now()
	if err := t.Add(ctx, o); err != nil {
		return 0, err
	}
	return time.Since(start), t.Delete(ctx, o)
}

// createService creates a Service and waits for its certificate.
func (k *work) createService(ctx context.Context, j job) (time.Duration, error) {
	t := k.tenants[j.worker%len(k.tenants)]
	svc := installed.ServiceOf(fmt.Sprintf("new-%s-%d-%d", j.name, j.worker, j.n))
	start := time.Now()
	err := k.insist(ctx, func(ctx context.Context) error {
		err := t.Add(ctx, svc)
		if apierrors.IsAlreadyExists(err) { // the answer of an earlier attempt was lost
			err = t.Get(ctx, t.Key(svc.Name), svc)
		}
		return err
	})
	if err == nil {
		_, err = t.Await(ctx, svc, "it is not Ready", installed.IsReady)
	}
	return time.Since(start), err
}

// createPod creates a pod through the webhook. It returns an error if the pod was not injected.
func (k *work) createPod(ctx context.Context, j job) (took time.Duration, err error) {
	at := k.places[rand.N(len(k.places))]
	pod := installed.PodOf("", at.service)
	pod.GenerateName = "pod-"
	var options []client.CreateOption
	if k.scene.tolerates > invariant.Done && j.n%kept != 0 {
		options = append(options, client.DryRunAll)
	}
	var stored *corev1.Pod
	err = k.insist(ctx, func(ctx context.Context) error {
		stored = pod.DeepCopy()
		start := time.Now()
		err := at.Add(ctx, stored, options...)
		took = time.Since(start)
		return err
	})
	if err == nil && stored.Labels[api.LabelInjected] != "true" {
		err = errors.New("pod " + stored.Name + " was not injected: " + stored.Annotations[api.AnnotationStatus])
	}
	if err != nil || options != nil {
		return took, err
	}
	return took, k.insist(ctx, func(ctx context.Context) error {
		return client.IgnoreNotFound(at.Delete(ctx, stored, client.GracePeriodSeconds(0)))
	})
}

// renewNext renews the certificate of a Service without pods.
func (k *work) renewNext(ctx context.Context, _ job) (time.Duration, error) {
	_, took, err := k.renew(ctx, k.places[int(k.renewals.Add(1))%len(k.places)])
	return took, err
}

// renew renews the certificate of a Service, and returns the Service with the new one.
func (k *work) renew(ctx context.Context, at place) (svc *corev1.Service, took time.Duration, err error) {
	svc = &corev1.Service{}
	if err := k.insist(ctx, func(ctx context.Context) error { return at.Get(ctx, at.Key(at.service), svc) }); err != nil {
		return nil, 0, err
	}
	before := installed.LeafOf(svc)
	if !process.Sleep(ctx, time.Until(time.Now().Truncate(time.Second).Add(time.Second+time.Millisecond))) {
		return nil, 0, fmt.Errorf("Service %s: %w", at.service, context.Cause(ctx))
	}
	start := time.Now()
	err = k.insist(ctx, func(ctx context.Context) (err error) {
		svc, err = at.Renew(ctx, at.service)
		return err
	})
	if err == nil {
		svc, err = at.Await(ctx, svc, "it has no new certificate", func(svc *corev1.Service) bool {
			return installed.IsReady(svc) && installed.LeafOf(svc) != before
		})
	}
	return svc, time.Since(start), err
}

// renewAndServe renews a certificate, makes its pods serve it at once, and waits until the rotator
// reports that they do.
func (k *work) renewAndServe(ctx context.Context, j job) (time.Duration, error) {
	service := servingName(j.worker)
	return k.renewAndSee(ctx, service, func() error { return k.kubelet.Reload(ctx, service) })
}

// renewAndRestart renews the certificate of the Deployment that reads it only once, and waits until
// the rotator has restarted it and reports that it serves the certificate.
func (k *work) renewAndRestart(ctx context.Context, _ job) (time.Duration, error) {
	return k.renewAndSee(ctx, servingName(k.serving), func() error { return nil })
}

// renewAndSee measures the time from the new certificate until it is served. If the CA is replaced
// meanwhile, and with it the certificate, it starts again.
func (k *work) renewAndSee(ctx context.Context, service string, reload func() error) (time.Duration, error) {
	at := place{k.tenants[0], service}
	svc, _, err := k.renew(ctx, at)
	for err == nil {
		leaf, since := installed.LeafOf(svc), time.Now()
		if err := reload(); err != nil {
			return 0, err
		}
		svc, err = at.Await(ctx, svc, "its new certificate is not seen served", func(svc *corev1.Service) bool {
			return installed.LeafOf(svc) != leaf || installed.IsServed(svc)
		})
		if err == nil && installed.LeafOf(svc) == leaf {
			return time.Since(since), nil
		}
	}
	return 0, err
}
