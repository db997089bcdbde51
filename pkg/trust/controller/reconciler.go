package controller

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
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// reconciler keeps the bundle in the targets of one kind.
type reconciler struct {
	kind     target.Kind
	now      func() time.Time
	patience time.Duration // Config.Patience
	targets  client.Reader // the cache that the kind watches
	source   sourceReader
	writer   fieldWriter
	state    *targetState
	events   eventWriter
	metrics  *metrics
}

// sourceReader reads the source from its cache.
type sourceReader struct {
	cache     client.Reader
	namespace string
	sources   *trust.Sources
}

// read returns the source, nil if there is none. It is the cache's and must not be changed.
func (s sourceReader) read(ctx context.Context) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	err := s.cache.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: api.CAStatusName}, cm, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s from the cache: %w", s.namespace, api.CAStatusName, err)
	}
	return cm, nil
}

// bundleFor returns the bundle of the source that is for the target.
func (s sourceReader) bundleFor(kind target.Kind, t target.Target, source *corev1.ConfigMap, now time.Time) (trust.Bundle, error) {
	return s.sources.Read(source, kind.CalledIn(s.namespace, t), now)
}

// Reconcile looks at one target.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, object, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.act(ctx, req.NamespacedName, object, s, trust.Decide(s))
}

// gather returns the situation of a target, and its object; nil if that is not
// there.
func (r *reconciler) gather(ctx context.Context, key types.NamespacedName) (trust.Situation, client.Object, error) {
	s := trust.Situation{Now: r.now(), Patience: r.patience, Release: r.kind.Release, Last: r.state.get(r.id(key))}
	t, requested, err := r.kind.Get(ctx, r.targets, key)
	if err != nil {
		return s, nil, err
	}
	s.Requested, s.Exists, s.Owned = requested, t.Exists(), t.Owned()
	if !requested {
		return s, t.Object, nil
	}
	cm, err := r.source.read(ctx)
	if err != nil {
		return s, nil, err
	}
	if s.Bundle, s.NoBundle = r.source.bundleFor(r.kind, t, cm, s.Now); s.NoBundle == nil {
		s.Held, s.Proof, s.Lacks = r.kind.Evaluate(t, s.Bundle), r.kind.Proof(t, s.Bundle), r.kind.Lacks(t, s.Bundle)
	}
	return s, t.Object, nil
}

func (r *reconciler) id(key types.NamespacedName) trust.TargetID {
	return trust.TargetID{Kind: r.kind.Name, Key: key}
}

func (r *reconciler) act(ctx context.Context, key types.NamespacedName, object client.Object, s trust.Situation, d trust.Decision) (reconcile.Result, error) {
	if d.Forget {
		r.state.forget(r.id(key))
		return r.release(ctx, object, d)
	}
	var failed error
	var attempt trust.Attempt
	if d.Write != "" {
		failed = r.writer.write(ctx, object, s.Bundle)
		attempt = advised(attempted(failed), r.kind.Advice(object))
		r.metrics.attempted(r.kind.Name, d.Write, attempt)
	}
	o := trust.Conclude(s, d, attempt)
	r.state.put(r.id(key), o.Record)
	r.report(ctx, object, s, d, o)
	if d.Release {
		return r.release(ctx, object, d)
	}
	return again(o.Retry, failed)
}

// release gives up the ownership of the field where the decision says so.
func (r *reconciler) release(ctx context.Context, object client.Object, d trust.Decision) (reconcile.Result, error) {
	if !d.Release {
		return reconcile.Result{RequeueAfter: d.After}, nil
	}
	err := r.writer.release(ctx, object)
	if isGone(err) {
		err = nil // there is nothing to release
	}
	attempt := attempted(err)
	retry := trust.RetryAfter(d, attempt)
	if retry.Fail {
		r.metrics.failed(r.kind.Name, attempt.Failure.Reason)
	}
	return again(retry, fmt.Errorf("release the field of the CA bundle: %w", err))
}

// again returns when to look again in controller-runtime's terms; err is why the
// attempt failed.
func again(retry trust.Retry, err error) (reconcile.Result, error) {
	if retry.Fail {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: retry.After}, nil
}

// report logs what is new, and sends it as an event.
func (r *reconciler) report(ctx context.Context, object client.Object, s trust.Situation, d trust.Decision, o trust.Outcome) {
	logger := log.FromContext(ctx)
	switch o.Report {
	case trust.ReportRefused:
		logger.Info("target refuses the CA bundle", "reason", o.Record.Reason, "message", o.Record.Message)
		r.events.refused(object, o.Record.Evaluation)
	case trust.ReportUnsuitable:
		logger.Info("target is unsuitable for the CA bundle", "reason", o.Record.Reason, "message", o.Record.Message)
		r.events.unsuitable(object, o.Record.Evaluation)
	case trust.ReportLacks:
		logger.Info("target does not get all that it requests", "message", s.Lacks)
		r.events.lacks(object, s.Lacks)
	case trust.ReportRestored:
		logger.Info("restored the CA bundle of a target", "was", d.Held.Message)
		r.events.restored(object, d.Held)
	case trust.ReportWritten:
		logger.V(1).Info("wrote the CA bundle of a target", "why", d.Write)
	}
}
