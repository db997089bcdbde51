package trust

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
)

// reconciler keeps the bundle in the targets of one kind.
type reconciler struct {
	target   Target
	now      func() time.Time
	patience time.Duration // Config.Patience
	targets  client.Reader // the cache that the finder watches
	source   sourceReader
	writer   client.Writer
	live     client.Reader // the API server
	ledger   *ledger
	events   eventWriter
	metrics  *metrics
}

// sourceReader reads the source from its cache.
type sourceReader struct {
	cache     client.Reader
	namespace string
}

// read returns the source, nil if there is none.
func (s sourceReader) read(ctx context.Context) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	err := s.cache.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: api.CAStatusName}, cm)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s from the cache: %w", s.namespace, api.CAStatusName, err)
	}
	return cm, nil
}

// Reconcile looks at one place.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	g, object, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.act(ctx, req.NamespacedName, object, g, decide(g))
}

func (r *reconciler) gather(ctx context.Context, key types.NamespacedName) (gathered, client.Object, error) {
	g := gathered{now: r.now(), last: r.ledger.get(target{r.target.Kind, key}), patience: r.patience}
	p, asked, err := r.target.finder.get(ctx, r.targets, key)
	if err != nil {
		return g, nil, err
	}
	g.asked, g.exists, g.owned, g.release = asked, p.exists(), p.owned(), r.target.Release
	if !asked {
		return g, p.object, nil
	}
	cm, err := r.source.read(ctx)
	if err != nil {
		return g, nil, err
	}
	if g.bundle, g.source = ReadSource(cm, g.now); g.source == nil {
		g.held = p.judge(r.target, g.bundle)
	}
	return g, p.object, nil
}

func (r *reconciler) act(ctx context.Context, key types.NamespacedName, object client.Object, g gathered, d decision) (reconcile.Result, error) {
	t := target{r.target.Kind, key}
	if d.forget {
		r.ledger.forget(t)
		return r.release(ctx, object, d)
	}
	var failed error
	came, wrote := d.held, false
	if d.write != "" {
		if failed = r.write(ctx, object, g.bundle); failed == nil {
			wrote = true
			r.metrics.wrote(r.target.Kind, d.write)
		} else if !isGone(failed) {
			came = classify(failed)
			r.metrics.failed(r.target.Kind, came.Reason)
		}
	}
	next := recorded(g, came, wrote)
	r.ledger.put(t, next)
	r.report(ctx, object, g, d, next)
	if d.release {
		return r.release(ctx, object, d)
	}
	return outcome(d, failed, came.Reason)
}

// outcome says when to look again. A place that is gone, and an object that
// changed meanwhile, are no failures: the cache is about to say so.
func outcome(d decision, failed error, reason Reason) (reconcile.Result, error) {
	switch {
	case failed == nil:
		return reconcile.Result{RequeueAfter: d.after}, nil
	case isGone(failed), reason == ReasonConflict:
		return reconcile.Result{RequeueAfter: minInterval}, nil
	}
	return reconcile.Result{}, failed
}

// write puts the bundle into the object's field. object ends up as what the last
// write before the apply left.
func (r *reconciler) write(ctx context.Context, object client.Object, bundle Bundle) error {
	if err := r.prepare(ctx, object); err != nil {
		return err
	}
	err := r.writer.Apply(ctx, r.target.Document(object, bundle.PEM), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply the CA bundle: %w", err)
	}
	return nil
}

// prepare makes way for the apply. Nearly always there is nothing to be done.
func (r *reconciler) prepare(ctx context.Context, object client.Object) error {
	if r.target.Moved != nil && r.target.Moved(object) {
		if err := r.disown(ctx, object); err != nil {
			return fmt.Errorf("give up the field that held the CA bundle before: %w", err)
		}
	}
	if r.target.Clear == nil {
		return nil
	}
	patch := r.target.Clear(object)
	if patch == nil {
		return nil
	}
	err := r.writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if err != nil {
		return fmt.Errorf("remove what is in the way of the CA bundle: %w", err)
	}
	return nil
}

// report tells people what is new: a refusal of this bundle with a reason that was
// not told, an object that has no place for the bundle, or a restored bundle.
func (r *reconciler) report(ctx context.Context, object client.Object, g gathered, d decision, next record) {
	logger := log.FromContext(ctx)
	switch {
	case next.State == StateRefuses && (g.last.told != next.told || g.last.hash != next.hash):
		logger.Info("a target refuses the CA bundle", "reason", next.Reason, "message", next.Message)
		r.events.refused(object, next.Judgement)
	case next.State == StateUnsuitable && g.last.State != StateUnsuitable:
		logger.Info("there is no place for the CA bundle in a target", "reason", next.Reason, "message", next.Message)
		r.events.unsuitable(object, next.Judgement)
	case next.wroteAt.Equal(g.last.wroteAt): // nothing was written
	case d.write == WhyRestore:
		logger.Info("CA bundle restored", "was", d.held.Message)
		r.events.restored(object, d.held)
	default:
		logger.V(1).Info("CA bundle written", "why", d.write)
	}
}
