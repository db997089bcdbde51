package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// consumer is a pod that mounts the key of a Secret of ours, or the bundle.
type consumer struct {
	namespace string
	pod       string
	workload  pods.Workload // zero for a pod that nothing makes
	secrets   []string      // those of ours whose key it mounts
	onRotate  api.OnRotate
	created   time.Time
}

// name is "shop Deployment/web", or "shop Pod/web-0" of a pod that nothing makes.
func (c consumer) name() string {
	if c.workload == (pods.Workload{}) {
		return c.namespace + " Pod/" + c.pod
	}
	return c.namespace + " " + c.workload.Kind + "/" + c.workload.Name
}

// isRestarted reports whether the rotator may restart it.
func (c consumer) isRestarted() bool {
	return c.onRotate == api.OnRotateRestart && c.workload.Restartable()
}

// consumers returns the pods of a namespace, of all if it is "", that mount the
// key of a Secret of one of the Services, or the bundle. Pods that have ended do
// not count.
func (c *cluster) consumers(ctx context.Context, namespace string, services []serviceStatus) ([]consumer, error) {
	ours := map[string]bool{}
	for _, s := range services {
		ours[s.Namespace+"/"+s.Secret] = true
	}
	var found []consumer
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Pods(namespace).List(ctx, opts)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		pod := obj.(*corev1.Pod)
		if consumer, ok := consumerOf(pod, ours); ok {
			found = append(found, consumer)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return found, nil
}

// consumerOf is pure; ours holds NAMESPACE/NAME of Secrets.
func consumerOf(pod *corev1.Pod, ours map[string]bool) (consumer, bool) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return consumer{}, false
	}
	t := pods.FactsOf(pod).Template.Value()
	c := consumer{namespace: pod.Namespace, pod: pod.Name, workload: t.Workload, onRotate: t.OnRotate, created: pod.CreationTimestamp.Time}
	for secret := range strings.SplitSeq(t.Mounts, ",") {
		if ours[pod.Namespace+"/"+secret] {
			c.secrets = append(c.secrets, secret)
		}
	}
	return c, len(c.secrets) > 0 || mountsBundle(pod)
}

// uptake is how a workload takes up a new certificate, the worse the greater.
type uptake int

const (
	uptakeClient    uptake = iota // it serves none
	uptakeReloads                 // it was seen to serve a certificate that is younger than its pods
	uptakeRestarted               // the rotator may restart it
	uptakeUnseen                  // nobody has seen it reload
	uptakeStale                   // it serves an older certificate now
)

// uptakes are what is said of each, and in which order.
var uptakes = []struct {
	uptake uptake
	what   string
}{
	{uptakeStale, "workloads that serve an older certificate already, and break until somebody restarts them"},
	{uptakeUnseen, "workloads that nobody has seen reload a certificate, and may break until somebody restarts them"},
	{uptakeRestarted, "workloads that the rotator restarts if they do not reload (" + api.AnnotationOnRotate + ": restart), one of a namespace at a time"},
	{uptakeReloads, "workloads that were seen to reload, and serve the new certificate within 92 s of it"},
	{uptakeClient, "workloads that mount the bundle alone, and have the new one within 92 s"},
}

// uptakeOf says how the workload of a pod takes up a new certificate, by what the
// rotator says of its Secrets. It is pure.
func uptakeOf(c consumer, serving map[string][]servingStatus) uptake {
	worst := uptakeClient
	for _, secret := range c.secrets {
		its := serving[c.namespace+"/"+secret]
		seen := uptakeUnseen
		switch {
		case c.isRestarted():
			seen = uptakeRestarted
		case slices.ContainsFunc(its, func(s servingStatus) bool { return s.isStale(c.workload) }):
			seen = uptakeStale
		case slices.ContainsFunc(its, func(s servingStatus) bool { return s.sawReload(c.created) }):
			seen = uptakeReloads
		}
		worst = max(worst, seen)
	}
	return worst
}

// breaking says, a line for each way of taking it up, which workloads have to take
// up a new certificate or bundle. It is pure.
func breaking(consumers []consumer, services []serviceStatus) string {
	serving := map[string][]servingStatus{}
	for _, s := range services {
		if s.Serving != nil {
			key := s.Namespace + "/" + s.Secret
			serving[key] = append(serving[key], *s.Serving)
		}
	}
	worst := map[string]uptake{}
	for _, c := range consumers {
		worst[c.name()] = max(worst[c.name()], uptakeOf(c, serving))
	}
	var b strings.Builder
	for _, u := range uptakes {
		var names []string
		for name, its := range worst {
			if its == u.uptake {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			b.WriteString(named(u.what, names))
		}
	}
	if len(worst) == 0 {
		b.WriteString(named("workloads that mount a certificate or the bundle", nil))
	}
	return b.String()
}

// mountsBundle reports whether the ConfigMap with the bundle is in one of the
// pod's volumes.
func mountsBundle(pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == api.BundleName {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil && source.ConfigMap.Name == api.BundleName {
				return true
			}
		}
	}
	return false
}

// maxNamed bounds how many of each kind are named.
const maxNamed = 20

// named is one line with how many there are and the names of at most maxNamed.
func named(what string, names []string) string {
	if len(names) == 0 {
		return "  " + what + ": none\n"
	}
	slices.Sort(names)
	return fmt.Sprintf("  %s: %d: %s\n", what, len(names), shorten(names))
}

// shorten lists the first of them.
func shorten(names []string) string {
	shown := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}
