package rotator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
)

// consumers follows who serves what: its unit of work is a Secret, and its
// reconcile is gather, decide, act.
type consumers struct {
	cfg    Config
	pods   *podCache
	others client.Reader // Services
	writer client.Client

	ledger      *consumersLedger
	prober      *prober
	events      eventWriter
	propagation prometheus.Histogram
	// look is called with a namespace whose stale workloads are others than before.
	look func(namespace string)
}

func (c *consumers) pace() pace {
	return pace{interval: c.cfg.VerifyInterval, propagation: c.cfg.PropagationTime, pause: c.cfg.ProbePause}
}

// Reconcile looks at one Secret. Under the name of no Secret it looks at the
// Services of the namespace that have none and still say something of what is
// served.
func (c *consumers) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f := c.ledger.open(req.NamespacedName, c.cfg.Now())
	s, err := c.gather(ctx, req, f)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.cert.leaf == "" || !c.cfg.VerifyConsumers {
		return reconcile.Result{}, c.leave(ctx, req.NamespacedName, s, f)
	}
	d := decideConsumers(s, c.pace())
	return reconcile.Result{RequeueAfter: d.after}, c.act(ctx, req.NamespacedName, s, d, f)
}

func (c *consumers) gather(ctx context.Context, req reconcile.Request, f followed) (consumersSituation, error) {
	s := consumersSituation{now: c.cfg.Now(), namespace: req.Namespace, secret: req.Name, begun: f.begun, empty: f.empty, told: f.told}
	var list corev1.ServiceList
	if err := c.others.List(ctx, &list, client.InNamespace(req.Namespace), client.MatchingFields{byPart: req.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("list Services of Secret %s from the cache: %w", req.NamespacedName, err)
	}
	for i := range list.Items {
		s.services = append(s.services, f.asWritten(&list.Items[i]))
	}
	slices.SortFunc(s.services, api.OlderFirst)
	if req.Name == partInNone {
		return s, nil
	}
	s.cert = f.cert.follow(s.services, s.now)
	if s.cert.leaf == "" || !c.cfg.VerifyConsumers {
		return s, nil
	}
	if s.cert.leaf != f.cert.leaf {
		s.told = nil
	}
	pods, err := c.pods.mounting(req.Namespace, req.Name)
	if err != nil {
		return s, fmt.Errorf("list the pods that mount Secret %s from the cache: %w", req.NamespacedName, err)
	}
	doors := map[unique.Handle[Template]]*door{}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || pod.Template.Value().Left == ReasonFinished {
			continue
		}
		at := doors[pod.Template]
		if at == nil {
			at = doorOf(pod.Template.Value(), req.Name, s.services)
			doors[pod.Template] = at
		}
		s.consumers = append(s.consumers, recall(pod, at, f.pods[pod.UID], s.now))
	}
	return s, nil
}

// recall puts together what is known of a pod.
func recall(pod *PodFacts, at *door, known remembered, now time.Time) consumer {
	c := consumer{pod: pod, door: at, reached: known.reached}
	for _, a := range known.answers {
		if slices.Contains(at.ports, a.port) {
			c.answers = append(c.answers, a)
		}
	}
	if c.seen = known.seen; !pod.Ready {
		c.seen = time.Time{}
	} else if c.seen.IsZero() {
		c.seen = now
	}
	return c
}

// leave takes back what was said where nothing can be, or nobody looks.
func (c *consumers) leave(ctx context.Context, key types.NamespacedName, s consumersSituation, f followed) error {
	var changes []servingChange
	for _, svc := range s.services {
		switch {
		case api.Condition(svc, api.ConditionServing) == nil:
		case s.cert.leaf == "":
			changes = append(changes, servingChange{svc, nil})
		default:
			if want := notVerified(svc); want != nil {
				changes = append(changes, servingChange{svc, want})
			}
		}
	}
	wrote, err := c.write(ctx, changes, f.wrote)
	if len(s.services) > 0 {
		c.ledger.put(key, followed{begun: f.begun, wrote: wrote}) // a new leaf may come
	} else {
		c.ledger.forget(key)
	}
	if len(f.stale) > 0 {
		c.look(key.Namespace)
	}
	return err
}

func (c *consumers) act(ctx context.Context, key types.NamespacedName, s consumersSituation, d consumersDecision, before followed) error {
	wrote, err := c.write(ctx, d.conditions, before.wrote)
	after := followed{
		cert: s.cert, begun: s.begun, empty: d.empty, told: d.news, pods: make(map[types.UID]remembered, len(s.consumers)), wrote: wrote,
		states: d.states, notAfter: d.notAfter, stale: d.stale,
	}
	for _, pod := range s.consumers {
		c.arrive(&pod, &after.cert)
		after.pods[pod.pod.UID] = remembered{seen: pod.seen, reached: pod.reached}
	}
	c.ledger.put(key, after)
	for _, pod := range d.dial {
		c.prober.ask(visit{
			visitKey: visitKey{key, pod.pod.UID}, address: pod.pod.IP, ports: pod.due(s.now, c.pace()),
			name: pod.door.name, names: hostnames(s.services), cert: s.cert,
		})
	}
	if len(d.tell) > 0 {
		log.FromContext(ctx).Info("pods serve an older certificate than the Secret holds", "workloads", len(d.tell), "leaf", s.cert.leaf, "since", s.cert.since)
	}
	for _, news := range d.tell {
		c.events.servesOld(s, news)
	}
	if !slices.Equal(before.stale, d.stale) {
		c.look(key.Namespace)
	}
	return err
}

// arrive notes that a pod serves what it should: how long that took, if it was
// seen to serve what it should before, and the certificate's own beginning.
func (c *consumers) arrive(pod *consumer, cert *certificate) {
	for _, a := range pod.answers {
		if a.kind != answeredTLS || a.leaf != cert.leaf {
			continue
		}
		cert.notBefore = a.notBefore
		if pod.reached != "" && pod.reached != cert.leaf {
			c.propagation.Observe(max(0, a.at.Sub(cert.since).Seconds()))
		}
		pod.reached = cert.leaf
		return
	}
}

// write sets the conditions, and returns what was written to which Service beside
// what was before.
func (c *consumers) write(ctx context.Context, changes []servingChange, wrote map[types.UID]wroteServing) (map[types.UID]wroteServing, error) {
	out := map[types.UID]wroteServing{}
	for uid, w := range wrote {
		if c.cfg.Now().Before(w.until) {
			out[uid] = w
		}
	}
	var errs []error
	for _, change := range changes {
		w, err := c.setServing(ctx, change)
		if err != nil {
			errs = append(errs, err)
		} else if w != nil {
			out[change.service.UID] = *w
		}
	}
	return out, errors.Join(errs...)
}

func hostnames(services []*corev1.Service) []string {
	names := make([]string, len(services))
	for i, svc := range services {
		names[i] = hostname(svc)
	}
	return names
}
