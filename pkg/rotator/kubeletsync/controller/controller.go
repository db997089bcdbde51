package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/kubeletsync"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// finder finds the pods that are to be woken for a Secret or a bundle.
type finder struct {
	*knowledge
	waker *waker
	found *cluster.Trigger // enqueues a pod for the waker
}

// Reconcile looks at the pods that mount a Secret, or, without a name, the bundle of
// a namespace. Pods of servingcert itself do not wait for their turn: until the webhook serves what
// clients trust, no pod is created in an opted-in namespace.
func (f *finder) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	concerned := f.cluster.Pods.In(req.Namespace)
	if req.Name != "" {
		concerned = f.cluster.Pods.Mounting(pods.NamespacedKey{Namespace: req.Namespace, Key: pods.SecretKey(req.Name)})
	}
	var result reconcile.Result
	for _, pod := range concerned {
		switch d := f.decide(pod); {
		case !d.Wake:
		case req.Namespace == f.cluster.Namespace:
			result.RequeueAfter = max(result.RequeueAfter, f.waker.wake(ctx, pod, d))
		default:
			f.found.Enqueue(client.ObjectKeyFromObject(pod))
		}
	}
	return result, nil
}

// knowledge is what decisions are made from.
type knowledge struct {
	cluster  *cluster.Cluster
	partners Partners
	bundles  *facts.Informer[*kubeletsync.Bundle]
}

// decide gathers what is known of a pod, and decides.
func (k *knowledge) decide(pod *pods.Facts) kubeletsync.Decision {
	s := kubeletsync.Situation{Now: k.cluster.Now(), Pod: pod, Annotation: pod.Leaf(), Secrets: map[string]kubeletsync.Content{}}
	for _, name := range pod.Secrets() {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		rotation, ok := k.partners.Rotation(key)
		if !ok {
			continue
		}
		s.Secrets[name] = kubeletsync.LeafContent(rotation)
		if k.partners.Serves(key, pod.UID, rotation.Leaf) {
			s.Serves = append(s.Serves, name)
		}
	}
	bundle := k.bundles.Get(types.NamespacedName{Namespace: pod.Namespace, Name: api.BundleName})
	if content, ok := bundle.Content(); ok {
		s.Bundle = &content
	}
	return kubeletsync.Decide(s)
}
