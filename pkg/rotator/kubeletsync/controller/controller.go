package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/kubeletsync"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
)

// finder finds the pods to be woken for a Secret or a bundle.
type finder struct {
	*inputs
	waker *waker
	found *cluster.Trigger // enqueues a pod for the waker
}

// Reconcile decides about the pods that mount a Secret, or, without a name, the bundle of a
// namespace. servingcert's own pods do not wait in the queue: until the webhook serves a
// certificate that clients trust, no pod can be created in an opted-in namespace.
func (f *finder) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	concerned := f.cluster.Pods.In(req.Namespace)
	if req.Name != "" {
		concerned = f.cluster.Pods.Mounting(pods.NamespacedKey{Namespace: req.Namespace, Key: pods.SecretKey(req.Name)})
	}
	var result reconcile.Result
	for _, pod := range concerned {
		switch d := f.decide(ctx, pod); {
		case !d.Writes():
		case req.Namespace == f.cluster.Namespace:
			result.RequeueAfter = max(result.RequeueAfter, f.waker.wake(ctx, pod, d))
		default:
			f.found.Enqueue(client.ObjectKeyFromObject(pod))
		}
	}
	return result, nil
}

// inputs are the sources of decisions.
type inputs struct {
	cluster   *cluster.Cluster
	consumers *servingcontroller.State
	bundles   *facts.Informer[*kubeletsync.Bundle]
	wakes     bool // Config.Enabled
}

// decide gathers the input of a pod, and decides.
func (i *inputs) decide(ctx context.Context, pod *pods.Facts) kubeletsync.Decision {
	s := kubeletsync.Situation{Now: i.cluster.Now(), Pod: pod, Annotation: pod.Leaf(), Secrets: map[string]kubeletsync.Content{}}
	s.Services = i.services(ctx, pod)
	if !i.wakes {
		return kubeletsync.Decide(s)
	}
	for _, name := range pod.Secrets() {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		rotation, ok := i.consumers.Rotation(key)
		if !ok {
			continue
		}
		s.Secrets[name] = kubeletsync.LeafContent(rotation)
		if i.consumers.Serves(key, pod.UID, rotation.Leaf) {
			s.Serves = append(s.Serves, name)
		}
	}
	bundle := i.bundles.Get(types.NamespacedName{Namespace: pod.Namespace, Name: api.BundleName})
	if content, ok := bundle.Content(); ok {
		s.Bundle = &content
	}
	return kubeletsync.Decide(s)
}

// services returns the cached Services of the namespace of a pod whose proxy reads which clients it admits. A
// Service that the cache has without its selector selects no pod.
func (i *inputs) services(ctx context.Context, pod *pods.Facts) (services []*corev1.Service) {
	if pod.Template.Value().Guarded == "" {
		return nil
	}
	var list corev1.ServiceList
	if err := i.cluster.Services.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "cannot list Services from the cache")
		return nil // as if there were none: nothing changes
	}
	for n := range list.Items {
		services = append(services, &list.Items[n])
	}
	return services
}
