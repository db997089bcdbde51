package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Consumers returns the pods of a namespace ("": of all) that mount the key of one of the
// Services or the bundle, or have their own key or an identity. Terminated pods do not count.
func (c *Cluster) Consumers(ctx context.Context, namespace string, services []status.Service) ([]status.Consumer, error) {
	ours := map[pods.NamespacedKey]bool{}
	for _, s := range services {
		for _, key := range s.Keys() {
			ours[pods.NamespacedKey{Namespace: s.Namespace, Key: key}] = true
		}
	}
	var found []status.Consumer
	err := pages.Each(ctx, c.Client.CoreV1().Pods(namespace), metav1.ListOptions{}, func(pod *corev1.Pod) {
		if consumer, ok := consumerOf(pod, ours); ok {
			found = append(found, consumer)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return found, nil
}

// consumerOf reads a pod; ours are the keys of Services.
func consumerOf(pod *corev1.Pod, ours map[pods.NamespacedKey]bool) (status.Consumer, bool) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return status.Consumer{}, false
	}
	facts := pods.FactsOf(pod)
	t := facts.Template.Value()
	c := status.Consumer{Namespace: pod.Namespace, Kind: api.PodKind, Name: pod.Name, OnRotate: t.OnRotate, Started: started(pod), BundleStarted: pods.BundleStart(pod)}
	if t.Workload != (pods.Workload{}) {
		c.Kind, c.Name, c.Restartable = t.Workload.Kind, t.Workload.Name, t.Workload.Restartable()
	}
	for _, key := range facts.Keys() {
		if key == pods.PodKey || ours[pods.NamespacedKey{Namespace: pod.Namespace, Key: key}] {
			c.Keys = append(c.Keys, key)
		}
	}
	c.Bundle, c.Reloads = t.Roots, t.Reloads
	c.Identity, c.Created = hasIdentity(pod), pod.CreationTimestamp.Time
	return c, len(c.Keys) > 0 || c.Bundle || c.Identity
}

// hasIdentity reports whether the kubelet requests an identity for the pod.
func hasIdentity(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.PodCertificate != nil && s.PodCertificate.SignerName == api.ClientSignerName
		})
	})
}

// started returns the start of the youngest running container, or zero.
func started(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil && s.State.Running.StartedAt.After(last) {
			last = s.State.Running.StartedAt.Time
		}
	}
	return last
}

// OldClients returns the pods of a namespace ("": of all) that may hold an older CA bundle, or notSeen: why they are
// unknown. published is the data of ConfigMap api.CAStatusName. Pods are listed only if a later root was distributed.
func (c *Cluster) OldClients(ctx context.Context, namespace string, published map[string]string) (old []status.OldClients, notSeen string, err error) {
	ca, now := api.ParseCAStatus(published), time.Now()
	if !status.CountsClients(ca, now) {
		return nil, "", nil
	}
	consumers, err := c.Consumers(ctx, namespace, nil)
	if apierrors.IsForbidden(err) {
		where := "all namespaces"
		if namespace != "" {
			where = "namespace " + namespace
		}
		return nil, "clients that may hold an older CA bundle: this user may not list pods in " + where, nil
	}
	return status.CountOldClients(ca, consumers, now), "", err
}
