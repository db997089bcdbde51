package rotator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
)

// reconciler finds the missed pods of a namespace and tells of them.
type reconciler struct {
	cfg    Config
	pods   *podCache
	others client.Reader // Services and Namespaces

	conventional *conventional
	ledger       *ledger
	events       eventWriter
}

// gathered is all that one look at a namespace is made from.
type gathered struct {
	now    time.Time
	place  Place
	pods   []*PodFacts
	before map[missKey]record
}

// Reconcile looks at one namespace.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	namespace := req.Name
	g, err := r.gather(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !g.place.OptedIn {
		r.ledger.forget(namespace)
		return reconcile.Result{}, nil
	}
	found := groupMissed(g.pods, g.place, r.cfg.Choose)
	d := decide(g.now, r.cfg.Patience, r.cfg.MaxEvents, found, g.before)
	r.act(ctx, namespace, g, found, d)
	return reconcile.Result{RequeueAfter: d.after}, nil
}

func (r *reconciler) gather(ctx context.Context, namespace string) (gathered, error) {
	g := gathered{now: r.cfg.Now(), before: r.ledger.records(namespace)}
	ns := namespaceMetadata()
	err := r.others.Get(ctx, types.NamespacedName{Name: namespace}, ns)
	if client.IgnoreNotFound(err) != nil {
		return g, fmt.Errorf("get Namespace %s from the cache: %w", namespace, err)
	}
	g.place.OptedIn = err == nil && ns.DeletionTimestamp == nil
	g.place.Excluded = slices.Contains([]string{metav1.NamespaceSystem, r.cfg.Namespace}, namespace)
	if !g.place.OptedIn || g.place.Excluded {
		return g, nil
	}
	g.place.Conventional = r.conventional.in(namespace)
	var services corev1.ServiceList
	if err := r.others.List(ctx, &services, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return g, fmt.Errorf("list Services of namespace %s from the cache: %w", namespace, err)
	}
	for i := range services.Items {
		if _, asks := api.Wants(&services.Items[i]); asks {
			g.place.Services = append(g.place.Services, &services.Items[i])
		}
	}
	if g.pods, err = r.pods.in(namespace); err != nil {
		return g, fmt.Errorf("list pods of namespace %s from the cache: %w", namespace, err)
	}
	return g, nil
}

func (r *reconciler) act(ctx context.Context, namespace string, g gathered, found []miss, d decision) {
	total := 0
	for _, m := range found {
		total += m.pods
	}
	r.ledger.put(namespace, total, d.records)
	if len(d.tell) > 0 {
		log.FromContext(ctx).Info("pods run without the Secret that they would get today", "pods", total, "workloads", len(found))
	}
	for _, m := range d.tell {
		r.events.missed(namespace, m, g.place.Services)
	}
	if len(d.rest) > 0 {
		r.events.more(namespace, d.rest, g.place.Services)
	}
}

// ledger is what is known of the opted-in namespaces. Losing it, as a new leader
// does, costs an event for each miss.
type ledger struct {
	mu         sync.Mutex
	namespaces map[string]entry
}

type entry struct {
	pods    int // missed
	records map[missKey]record
}

func newLedger() *ledger { return &ledger{namespaces: map[string]entry{}} }

func (l *ledger) records(namespace string) map[missKey]record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.namespaces[namespace].records // replaced, never changed
}

func (l *ledger) put(namespace string, pods int, records map[missKey]record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.namespaces[namespace] = entry{pods, records}
}

func (l *ledger) forget(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.namespaces, namespace)
}

// counts returns the number of missed pods by namespace.
func (l *ledger) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make(map[string]int, len(l.namespaces))
	for namespace, e := range l.namespaces {
		counts[namespace] = e.pods
	}
	return counts
}
