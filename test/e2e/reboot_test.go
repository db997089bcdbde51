//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
)

// recovering is the timeout for a part of the control plane to work again.
const recovering = 2 * time.Minute

const rebootNamespace = "e2e-reboot"

// blow kills all replicas of one part of the control plane at once. recovered returns nil when it
// works again.
type blow struct {
	what      string
	strike    func(c *cluster, ctx context.Context) error
	recovered func(c *cluster, ctx context.Context, n int) error
}

// blows are the blows of scene reboot, in order.
var blows = []blow{
	{"etcd", restartComponent("etcd"), (*cluster).writesAnObject},
	{"kube-apiserver", restartComponent("kube-apiserver"), (*cluster).writesAnObject},
	{"signer", killPods("signer"), (*cluster).issues},
	{"webhook", killPods("webhook"), func(c *cluster, ctx context.Context, _ int) error { return c.injects(ctx, rebootNamespace) }},
	{"rotator of the bundle", killPods("trust"), (*cluster).bringsTheBundle},
}

// restartComponent kills a process of the control plane and restarts it immediately.
func restartComponent(name string) func(*cluster, context.Context) error {
	return func(c *cluster, ctx context.Context) error {
		return c.machine.Restart(ctx, name)
	}
}

func killPods(name string) func(*cluster, context.Context) error {
	return func(c *cluster, ctx context.Context) error {
		var pids []int
		// A process that could not renew its Lease while the API server was down has exited, which its
		// status may not show yet.
		err := until(ctx, recovering, "both pods of the "+name+" have a process", func(ctx context.Context) (err error) {
			pids, err = c.processesOfBoth(ctx, name)
			return err
		})
		if err != nil {
			return err
		}
		return kill9(pids)
	}
}

// processesOfBoth returns the processes of this name in the two pods of a Deployment.
func (c *cluster) processesOfBoth(ctx context.Context, name string) ([]int, error) {
	pods, err := c.pods(ctx, api.DefaultNamespace, map[string]string{"app.kubernetes.io/name": name})
	if err != nil {
		return nil, err
	}
	if len(pods) != 2 {
		return nil, fmt.Errorf("%d pods of the %s, want 2", len(pods), name)
	}
	var all []int
	for i := range pods {
		program, _ := deploy.Program(name)
		pids, err := processesIn(pods[i].UID, program)
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	return all, nil
}

// writesAnObject returns nil if the API server has its data and accepts writes.
func (c *cluster) writesAnObject(ctx context.Context, n int) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: rebootNamespace, Name: fmt.Sprintf("written-after-%d", n)}}
	return client.IgnoreAlreadyExists(c.admin.Create(ctx, cm))
}

// issues returns nil if a Service that is annotated after the blow gets its certificate.
func (c *cluster) issues(ctx context.Context, n int) error {
	name := fmt.Sprintf("asked-after-%d", n)
	if err := client.IgnoreAlreadyExists(c.admin.Create(ctx, asking(name))); err != nil {
		return err
	}
	return c.hasCondition(ctx, rebootNamespace, name, api.ConditionReady, "True", "Issued")
}

// bringsTheBundle returns nil if a namespace that is labelled after the blow gets the bundle.
func (c *cluster) bringsTheBundle(ctx context.Context, n int) error {
	name := fmt.Sprintf("%s-%d", rebootNamespace, n)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	if err := client.IgnoreAlreadyExists(c.admin.Create(ctx, ns)); err != nil {
		return err
	}
	return c.admin.Get(ctx, client.ObjectKey{Namespace: name, Name: api.BundleName}, &corev1.ConfigMap{})
}

// asking returns a Service that asks for a certificate.
func asking(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: rebootNamespace, Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
}

// reboot kills the whole control plane, part by part, while pods are created, certificates are
// requested and clients make handshakes.
func (c *cluster) reboot(t *testing.T, s *scene) {
	c.apply(t, "reboot.yaml")
	eventually(t, settling, "the certificate of pods that are created meanwhile", func(ctx context.Context) error {
		_, err := c.currentLeaf(ctx, rebootNamespace, "load")
		return err
	})
	before := c.writes.latest()
	load := c.startLoad(t.Context())
	defer load.stop()
	for i, blow := range blows {
		// A process that could not renew its Lease exits and is restarted.
		eventually(t, recovering, "all processes run", func(ctx context.Context) error { return c.rolledOut(ctx, api.DefaultNamespace, "") })
		start := time.Now()
		require.NoError(t, blow.strike(c, t.Context()), blow.what)
		eventually(t, recovering, blow.what+" recovers", func(ctx context.Context) error { return blow.recovered(c, ctx, i) })
		took := time.Since(start)
		s.note(fmt.Sprintf("%s: %.1f s", blow.what, took.Seconds()))
		t.Logf("killed %s; recovered after %s", blow.what, took)
	}
	load.stop()

	require.NotEmpty(t, load.pods)
	require.NotEmpty(t, load.services)
	eventually(t, starting, "every pod that was accepted", func(ctx context.Context) error { return c.allInjected(ctx, load.pods) })
	eventually(t, settling, "every requested certificate", func(ctx context.Context) error { return c.allIssued(ctx, load.services) })
	after := c.writes.latest()
	for key, leaf := range before {
		assert.Equal(t, leaf, after[key], "Secret %s: its certificate was replaced", key)
	}
	s.note(fmt.Sprintf("%d pods, %d certificates accepted meanwhile, none lost", len(load.pods), len(load.services)))
	s.note(c.noFailure(t))
}

// allInjected returns nil if each pod has its certificate and is ready.
func (c *cluster) allInjected(ctx context.Context, names []string) error {
	for _, name := range names {
		pod := &corev1.Pod{}
		if err := c.admin.Get(ctx, client.ObjectKey{Namespace: rebootNamespace, Name: name}, pod); err != nil {
			return err
		}
		if pod.Labels[api.LabelInjected] != "true" {
			return fmt.Errorf("pod %s was accepted and not injected", name)
		}
		if !isReady(pod) {
			return fmt.Errorf("pod %s is %s and not ready", name, pod.Status.Phase)
		}
	}
	return nil
}

// allIssued returns nil if each Service has a certificate, and never had another.
func (c *cluster) allIssued(ctx context.Context, services []string) error {
	for _, name := range services {
		if err := c.hasCondition(ctx, rebootNamespace, name, api.ConditionReady, "True", "Issued"); err != nil {
			return err
		}
		if issued := c.writes.of(rebootNamespace, name+"-tls"); len(issued) != 1 {
			return fmt.Errorf("Secret %s-tls has had %d certificates, want 1", name, len(issued))
		}
	}
	return nil
}

// load creates pods and Services until it is stopped, and records the names of accepted ones.
type load struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	pods, services []string // valid after the end
}

func (c *cluster) startLoad(ctx context.Context) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel}
	l.done.Go(func() {
		repeat(ctx, 2*time.Second, func(ctx context.Context, i int) {
			if c.loadWaiting(ctx) >= maxLoadWaiting {
				return
			}
			pod := loadPod(fmt.Sprintf("load-%d", i))
			if c.admin.Create(ctx, pod) == nil {
				l.pods = append(l.pods, pod.Name)
			}
		})
	})
	l.done.Go(func() {
		repeat(ctx, 500*time.Millisecond, func(ctx context.Context, i int) {
			svc := asking(fmt.Sprintf("load-%d", i))
			if c.admin.Create(ctx, svc) == nil {
				l.services = append(l.services, svc.Name)
			}
		})
	})
	return l
}

// maxLoadWaiting is how many pods of the load may wait for their start. A node that is asked to start more than it
// can starts none sooner, and the proxies' clients then miss --handshake-timeout.
const maxLoadWaiting = 3

// loadWaiting returns how many pods of the load are not ready, or maxLoadWaiting if the API server does not answer.
func (c *cluster) loadWaiting(ctx context.Context) (n int) {
	var pods corev1.PodList
	if err := c.admin.List(ctx, &pods, client.InNamespace(rebootNamespace)); err != nil {
		return maxLoadWaiting
	}
	for i := range pods.Items {
		if !isReady(&pods.Items[i]) {
			n++
		}
	}
	return n
}

func (l *load) stop() {
	l.cancel()
	l.done.Wait()
}

// repeat calls do until ctx ends, with a timeout, as an API server without etcd does not answer.
func repeat(ctx context.Context, pause time.Duration, do func(ctx context.Context, i int)) {
	for i := 0; ; i++ {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		do(attempt, i)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// loadPod returns a server behind Service load.
func loadPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: rebootNamespace, Name: name, Labels: map[string]string{"app": "load"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  "server",
			Image: "ghcr.io/servingcert/e2e-server:e2e",
			Args:  []string{"--listen=:8443"},
			Ports: []corev1.ContainerPort{{ContainerPort: 8443}},
		}}},
	}
}
