package controller

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/wake"
)

// The results of a write: a label of servingcert_wakes_total.
const (
	resultWritten   = "written"
	resultGone      = "gone"      // the pod was deleted, or replaced by another of its name
	resultForbidden = "forbidden" // no rights, or an admission webhook or policy refuses
	resultError     = "error"
)

// waker writes the annotation on pods, at a bounded rate and one after the other.
type waker struct {
	*knowledge
	writer  client.Writer
	limiter flowcontrol.RateLimiter
	backoff workqueue.TypedRateLimiter[types.NamespacedName]
	results *prometheus.CounterVec
	failing bool // the last write failed

	mu    sync.Mutex
	queue wake.Queue
	added chan struct{} // has room for one
}

func newWaker(cfg Config, k *knowledge, writer client.Writer) *waker {
	return &waker{
		knowledge: k, writer: writer,
		limiter: flowcontrol.NewTokenBucketRateLimiter(float32(cfg.Rate), max(1, cfg.Rate/10)),
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](cfg.MinBackoff, cfg.MaxBackoff),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_wakes_total",
			Help: "Writes of annotation " + api.AnnotationLeaf + " on pods, which make the kubelet update their files at once, by result: written, gone (the pod was deleted), forbidden or error.",
		}, []string{"result"}),
		added: make(chan struct{}, 1),
	}
}

// add has the pod woken when it is its turn, if that is still to be done then.
func (w *waker) add(pod types.NamespacedName, class wake.Class) {
	w.mu.Lock()
	w.queue.Add(pod, class)
	w.mu.Unlock()
	select {
	case w.added <- struct{}{}:
	default:
	}
}

// Start wakes pods until ctx ends. It runs on the leader.
func (w *waker) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		w.mu.Lock()
		pod, ok := w.queue.Next()
		w.mu.Unlock()
		if ok {
			w.wake(ctx, pod)
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.added:
		}
	}
	return nil
}

// wake writes the annotation, if it still is to be written.
func (w *waker) wake(ctx context.Context, key types.NamespacedName) {
	pod := w.cluster.Pods.Get(key)
	if pod == nil {
		w.backoff.Forget(key)
		return
	}
	trust, err := w.trust(ctx)
	if err != nil {
		w.failed(ctx, key, wake.Routine, err)
		return
	}
	d := wake.Decide(w.situation(pod, trust))
	if !d.Wake {
		w.backoff.Forget(key)
		return
	}
	if w.limiter.Wait(ctx) != nil {
		return // this process ends
	}
	switch err := w.write(ctx, pod, d.Value); {
	case err == nil:
		w.succeeded(ctx, pod, d)
	case isGone(err):
		w.results.WithLabelValues(resultGone).Inc()
		w.backoff.Forget(key)
	case ctx.Err() == nil:
		w.failed(ctx, key, d.Class, err)
	}
}

// write sets the annotation of exactly this pod.
func (w *waker) write(ctx context.Context, pod *pods.Facts, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{api.AnnotationLeaf: value}}})
	if err != nil {
		return err
	}
	patched := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	patched.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := w.writer.Patch(ctx, patched, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	w.written.Put(client.ObjectKeyFromObject(pod), patched.ResourceVersion, value, w.cluster.Now())
	return nil
}

// isGone reports whether there is no such pod any more. For one that was replaced by
// another of its name, the API server says that a UID cannot be changed.
func isGone(err error) bool {
	if cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid); ok && apierrors.IsInvalid(err) {
		return cause.Field == "metadata.uid"
	}
	return apierrors.IsNotFound(err)
}

func (w *waker) succeeded(ctx context.Context, pod *pods.Facts, d wake.Decision) {
	w.results.WithLabelValues(resultWritten).Inc()
	w.backoff.Forget(client.ObjectKeyFromObject(pod))
	if w.failing {
		w.failing = false
		log.FromContext(ctx).Info("pods are woken again")
	}
	for _, secret := range d.Dial {
		w.partners.Woken(types.NamespacedName{Namespace: pod.Namespace, Name: secret}, pod.UID, w.cluster.Now())
	}
}

// failed tries again later. Only the first of failures in a row is logged: what
// stops one write, such as missing rights, mostly stops all.
func (w *waker) failed(ctx context.Context, pod types.NamespacedName, class wake.Class, err error) {
	result := resultError
	if apierrors.IsForbidden(err) {
		result = resultForbidden
	}
	w.results.WithLabelValues(result).Inc()
	if !w.failing {
		w.failing = true
		log.FromContext(ctx).Error(err, "cannot wake a pod: files of pods change when the kubelet looks at them, in up to 92 s", "namespace", pod.Namespace, "pod", pod.Name)
	}
	time.AfterFunc(w.backoff.When(pod), func() { w.add(pod, class) })
}
