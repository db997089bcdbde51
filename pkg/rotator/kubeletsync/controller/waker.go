package controller

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/kubeletsync"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// The results of a write, a label of servingcert_wakes_total.
const (
	resultWritten   = "written"
	resultGone      = "gone"      // the pod was deleted, or replaced by another of its name
	resultForbidden = "forbidden" // no permission, or an admission webhook or policy rejects it
	resultError     = "error"
)

// waker wakes pods, at a bounded rate. Namespaces take turns in its queue.
type waker struct {
	*inputs
	writer  client.Writer
	limiter flowcontrol.RateLimiter
	retry   time.Duration
	results *prometheus.CounterVec
	failing atomic.Bool // the last write failed
}

func newWaker(cfg Config, in *inputs, writer client.Writer) *waker {
	return &waker{
		inputs: in, writer: writer, retry: cfg.Retry,
		limiter: flowcontrol.NewTokenBucketRateLimiter(float32(cfg.Rate), max(1, cfg.Rate/10)),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_wakes_total",
			Help: "Writes of annotations " + api.AnnotationLeaf + " and " + api.AnnotationAdmits + " on pods, which make the kubelet update their files at once, by result: written, gone (the pod was deleted), forbidden or error.",
		}, []string{"result"}),
	}
}

// Reconcile wakes a pod if that is still needed. A failed write is retried until the kubelet has
// updated the files anyway.
func (w *waker) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := w.cluster.Pods.Get(req.NamespacedName)
	if pod == nil {
		return reconcile.Result{}, nil
	}
	d := w.decide(ctx, pod)
	if !d.Writes() {
		return reconcile.Result{}, nil
	}
	_ = w.limiter.Wait(ctx) // an error means that this process stops, and the write fails too
	return reconcile.Result{RequeueAfter: w.wake(ctx, pod, d)}, nil
}

// wake writes the annotation, and returns the wait before a retry, or zero. It logs only the first
// of consecutive failures: their cause, such as missing permissions, usually affects all writes.
func (w *waker) wake(ctx context.Context, pod *pods.Facts, d kubeletsync.Decision) time.Duration {
	err := w.write(ctx, pod, d)
	result := resultError
	switch {
	case err == nil:
		result = resultWritten
		w.succeeded(ctx, pod, d)
	case ctx.Err() != nil:
		return 0
	case isGone(err):
		result, err = resultGone, nil
	case apierrors.IsForbidden(err):
		result = resultForbidden
	}
	w.results.WithLabelValues(result).Inc()
	if err == nil {
		return 0
	}
	if !w.failing.Swap(true) {
		log.FromContext(ctx).Error(err, "cannot wake a pod: the kubelet updates the files of pods only at its next sync, within 92 s", "namespace", pod.Namespace, "pod", pod.Name)
	}
	return w.retry
}

// write sets the annotation of this very pod, and returns once the cache has seen it.
func (w *waker) write(ctx context.Context, pod *pods.Facts, d kubeletsync.Decision) error {
	annotations := map[string]string{}
	if d.Wake {
		annotations[api.AnnotationLeaf] = d.Value
	}
	if d.Admits != nil {
		annotations[api.AnnotationAdmits] = *d.Admits
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	patched := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	patched.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := w.writer.Patch(ctx, patched, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	w.cluster.Pods.Await(ctx, patched.ResourceVersion)
	return nil
}

// isGone reports whether the pod no longer exists. If another one has its name, the API server
// answers that a UID cannot be changed.
func isGone(err error) bool {
	if cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid); ok && apierrors.IsInvalid(err) {
		return cause.Field == "metadata.uid"
	}
	return apierrors.IsNotFound(err)
}

func (w *waker) succeeded(ctx context.Context, pod *pods.Facts, d kubeletsync.Decision) {
	if w.failing.Swap(false) {
		log.FromContext(ctx).Info("pods can be woken again")
	}
	for _, secret := range d.Dial {
		w.consumers.Woken(types.NamespacedName{Namespace: pod.Namespace, Name: secret}, pod.UID, w.cluster.Now())
	}
}
