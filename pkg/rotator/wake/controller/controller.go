package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/wake"
)

// reconciler finds the pods that are to be woken for a Secret or a bundle.
type reconciler struct {
	*knowledge
	waker *waker
}

// Reconcile looks at the pods that mount a Secret, or, without a name, the bundle of
// a namespace.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	concerned := r.cluster.Pods.In(req.Namespace)
	if req.Name != "" {
		concerned = r.cluster.Pods.Mounting(pods.NamespacedKey{Namespace: req.Namespace, Key: pods.SecretKey(req.Name)})
	}
	if len(concerned) == 0 {
		return reconcile.Result{}, nil
	}
	trust, err := r.trust(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, pod := range concerned {
		if d := wake.Decide(r.situation(pod, trust)); d.Wake {
			r.waker.add(client.ObjectKeyFromObject(pod), d.Class)
		}
	}
	return reconcile.Result{}, nil
}

// knowledge is what situations are gathered from.
type knowledge struct {
	cluster   *cluster.Cluster
	partners  Partners
	bundles   *facts.Informer[*wake.Bundle]
	published client.Reader          // a cache of the CA's status
	written   *facts.Written[string] // annotations, by pod
}

// trust returns what the CA is doing.
func (k *knowledge) trust(ctx context.Context) (wake.Trust, error) {
	var cm corev1.ConfigMap
	err := k.published.Get(ctx, types.NamespacedName{Namespace: k.cluster.Namespace, Name: api.CAStatusName}, &cm, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return wake.Trust{}, fmt.Errorf("read ConfigMap %s from the cache: %w", api.CAStatusName, err)
	}
	return wake.TrustOf(api.ParseCAStatus(cm.Data), k.cluster.Now()), nil
}

// situation gathers what is known of a pod.
func (k *knowledge) situation(pod *pods.Facts, trust wake.Trust) wake.Situation {
	now := k.cluster.Now()
	s := wake.Situation{Now: now, Pod: pod, Own: pod.Namespace == k.cluster.Namespace, Annotation: k.annotation(pod, now), Secrets: map[string]wake.Content{}}
	for _, name := range pod.Secrets() {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		rotation, ok := k.partners.Rotation(key)
		if !ok {
			continue
		}
		s.Secrets[name] = wake.LeafContent(rotation, trust)
		if k.partners.Serves(key, pod.UID, rotation.Leaf) {
			s.Serves = append(s.Serves, name)
		}
	}
	bundle := k.bundles.Get(types.NamespacedName{Namespace: pod.Namespace, Name: api.BundleName})
	if content, ok := bundle.Content(trust); ok {
		s.Bundle = &content
	}
	return s
}

// annotation returns the pod's, as this process wrote it if the cache is behind.
func (k *knowledge) annotation(pod *pods.Facts, now time.Time) string {
	if value, behind := k.written.Newer(client.ObjectKeyFromObject(pod), pod.ResourceVersion, now); behind {
		return value
	}
	return pod.Leaf()
}
