package trust

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
)

// statusReconciler keeps the trust status, and tells of a source that is no good.
type statusReconciler struct {
	kinds     *kinds
	now       func() time.Time
	namespace string
	source    sourceReader
	status    client.Reader // the cache of the trust status
	writer    client.Writer
	ledger    *ledger
	events    eventWriter
	latest    atomic.Pointer[summary]
	problem   string    // the source's, as last told
	since     time.Time // when it was looked at first
}

// startGrace is how long a process that begins waits for its caches before it
// says what it knows: it would only unsay and say again what the one before it
// said.
const startGrace = 10 * time.Second

// Reconcile brings the trust status up to date. There is only one to look at.
func (r *statusReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now, views := r.now(), r.kinds.all()
	if r.since.IsZero() {
		r.since = now
	}
	if grace := startGrace - now.Sub(r.since); starting(views) && grace > 0 {
		return reconcile.Result{RequeueAfter: grace}, nil
	}
	s, source, until, err := r.gather(ctx, now, views)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.latest.Store(&s)
	r.tell(ctx, source, s.status.Problem)
	current := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: r.namespace, Name: api.TrustStatusName}
	if err := r.status.Get(ctx, key, current); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read ConfigMap %s from the cache: %w", key, err)
	}
	if data := s.status.Data(); !sameData(current.Data, data) {
		doc := applycorev1.ConfigMap(key.Name, key.Namespace).WithData(data)
		if err := r.writer.Apply(ctx, doc, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
			return reconcile.Result{}, fmt.Errorf("write the trust status: %w", err)
		}
	}
	return reconcile.Result{RequeueAfter: until}, nil
}

// gather returns the summary, the source and the time until the bundle changes
// by itself, 0 for never.
func (r *statusReconciler) gather(ctx context.Context, now time.Time, views []kindView) (summary, *corev1.ConfigMap, time.Duration, error) {
	fail := func(err error) (summary, *corev1.ConfigMap, time.Duration, error) { return summary{}, nil, 0, err }
	source, err := r.source.read(ctx)
	if err != nil {
		return fail(err)
	}
	bundle, problem := ReadSource(source, now)
	var all []seen
	for _, v := range views {
		if v.targets == nil || v.state == KindAbsent {
			continue
		}
		places, err := v.served.finder.list(ctx, v.targets)
		if err != nil {
			return fail(fmt.Errorf("list targets of kind %s from the cache: %w", v.name, err))
		}
		for _, p := range places {
			t := target{v.name, p.key}
			s := seen{target: t, record: r.ledger.get(t)}
			if problem == nil {
				s.held = p.judge(v.served, bundle)
			}
			all = append(all, s)
		}
	}
	until := time.Duration(0)
	if problem == nil {
		until = untilExpired(gathered{now: now, bundle: bundle})
	}
	return summarize(views, bundle, problem, all), source, until, nil
}

// tell says once that the source is no good, and once that it is good again.
func (r *statusReconciler) tell(ctx context.Context, source *corev1.ConfigMap, problem string) {
	if problem == r.problem {
		return
	}
	r.problem = problem
	if problem == "" {
		log.FromContext(ctx).Info("there is a CA bundle to distribute again")
		return
	}
	if source == nil {
		source = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: api.CAStatusName}}
	}
	log.FromContext(ctx).Info("no CA bundle to distribute, targets keep what they have", "problem", problem)
	r.events.sourceInvalid(source, fmt.Errorf("%s", problem))
}

// summary returns the latest, and false before there is one.
func (r *statusReconciler) summary() (summary, bool) {
	if s := r.latest.Load(); s != nil {
		return *s, true
	}
	return summary{}, false
}
