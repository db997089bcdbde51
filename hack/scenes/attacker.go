package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

type fields = map[string]any

// attacker runs one attack, and counts what became of it.
type attacker struct {
	*installed.Tenant
	scene   *scene
	world   *world
	webhook string          // HOST:PORT of its Service
	plain   *corev1.Service // without annotations, of secret-labels

	mu            sync.Mutex
	sent, refused int
	last          string // error
	breach        string // what it got and must not get
}

// round is a scene in which tenants work for a time, while another one runs the attacks, if there are
// any, and while a new generation of the CA is asked for.
func round(name string, attacks []*scene) *scene {
	what := fmt.Sprintf("%d attacks, and a new generation of the CA", len(attacks))
	return &scene{name: name, what: what, tenants: []string{"shop-" + name}, do: func(ctx context.Context, k *work) (said string, err error) {
		finish := func() {}
		if len(attacks) > 0 {
			if finish, err = k.launch(ctx, attacks); err != nil {
				return "", err
			}
		}
		process.Sleep(ctx, k.hold/12)
		start, rest := time.Now(), k.hold*11/12
		within, cancel := context.WithTimeout(ctx, rest)
		defer cancel()
		said, err = k.rotating(within, func() error { return nil })
		if said += " after " + installed.Short(time.Since(start)); err != nil && !errors.Is(err, installed.ErrRefused) {
			said, err = err.Error(), nil // that it does not sign in time is a result
		}
		process.Sleep(ctx, time.Until(start.Add(rest)))
		k.end()
		finish()
		return said, err
	}}
}

// launch starts the attacks. What it returns ends and counts them.
func (w *world) launch(ctx context.Context, attacks []*scene) (finish func(), err error) {
	evil, err := w.newEvil(ctx)
	if err != nil {
		return nil, err
	}
	_, webhook, err := w.WebhookAddress(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	var all []*attacker
	var running sync.WaitGroup
	for _, s := range attacks {
		a := &attacker{Tenant: evil, scene: s, world: w, webhook: webhook}
		all = append(all, a)
		running.Go(func() { s.attack(ctx, a) })
	}
	return func() {
		stop()
		running.Wait()
		for _, a := range all {
			process.Step("%s, %s: %d requests, %d refused, the last: %.200q", a.scene.name, a.scene.what, a.sent, a.refused, a.last)
			if a.sent == 0 {
				a.breach = "nothing was sent"
			}
			if a.breach != "" {
				w.noted <- "attack " + a.scene.name + ": " + a.breach
			}
		}
	}, nil
}

// newEvil makes the tenant that attacks. It has ClusterRole admin in a namespace without the label as
// well, and may write the status of Services there, as controllers of load balancers may. Its pods
// may make CertificateSigningRequests.
func (w *world) newEvil(ctx context.Context) (*installed.Tenant, error) {
	t, err := w.NewTenant(ctx, "evil")
	if err != nil {
		return nil, err
	}
	status := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"patch", "update"}}
	if err := w.Grant(ctx, t, optedOut, status); err != nil {
		return nil, err
	}
	return t, w.Admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: t.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + t.Namespace}},
	})
}

// count counts a request, and reports whether it was accepted.
func (a *attacker) count(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	if err != nil {
		a.refused++
		a.last = err.Error()
	}
	return err == nil
}

// repeat does something again and again, with a pause.
func (a *attacker) repeat(ctx context.Context, pause time.Duration, do func(i int) error) {
	for i := 0; ctx.Err() == nil; i++ {
		a.count(ctx, do(i))
		process.Sleep(ctx, pause)
	}
}

// many does something n times at the same time.
func many(n int, do func(i int)) {
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { do(i) })
	}
	running.Wait()
}

// nth returns the name of the i-th object of an attack that keeps so many.
func (a *attacker) nth(i, keep int) string { return fmt.Sprint(a.scene.name, "-", i%keep) }

// createServices makes n Services of the attack, with more annotations.
func (a *attacker) createServices(ctx context.Context, n int, annotations map[string]string) {
	for i := range n {
		svc := installed.ServiceOf(a.nth(i, n))
		maps.Copy(svc.Annotations, annotations)
		a.count(ctx, a.Add(ctx, svc))
	}
}

// tarpits has the rotator dial pods that never answer. All of them say that they have the same
// address: that is the attacker's to write.
func tarpits(ctx context.Context, a *attacker) {
	const pods, ports, first = 200, 16, 20_000
	at := installed.Address(evilNet, 0)
	svc := installed.ServiceOf(a.scene.name)
	svc.Spec.Ports = nil
	for i := range ports {
		s, err := installed.Listen(ctx, at, first+i, nil)
		if err != nil {
			a.count(ctx, err)
			return
		}
		defer s.Close() //nolint:gocritic // all listen until the end
		port := corev1.ServicePort{Name: fmt.Sprint("https-", i), Port: int32(1000 + i), TargetPort: intstr.FromInt32(int32(first + i))}
		svc.Spec.Ports = append(svc.Spec.Ports, port)
	}
	a.count(ctx, a.Add(ctx, svc))
	for i := range pods {
		pod := installed.PodOf(a.nth(i, pods), a.scene.name)
		pod.Spec.Containers[0].Ports[0].ContainerPort = first
		if a.count(ctx, a.Add(ctx, pod)) {
			a.count(ctx, a.Runs(ctx, pod.Name, at, true))
		}
	}
	a.repeat(ctx, 2*time.Second, func(i int) error {
		return a.Merge(ctx, installed.ServiceOf(a.scene.name), fields{"spec": fields{"ports": []fields{{"port": 1000, "targetPort": first + i%2}}}})
	})
}

// rollouts holds the places of workloads that may roll out at a time. The first pod of each Deployment
// serves its first certificate for ever. The pod that a restart makes is never ready in half of the
// Deployments, and ready every other second in the others.
func rollouts(ctx context.Context, a *attacker) {
	const n = 6
	kubelet := a.StartKubelet(evilNet, true)
	defer kubelet.Close()
	for i := range n {
		longest := int32(1<<31 - 2)
		deployment := installed.DeploymentOf(a.nth(i, n), 1, api.OnRotateRestart)
		deployment.Spec.ProgressDeadlineSeconds = &longest
		a.count(ctx, a.Add(ctx, installed.ServiceOf(a.nth(i, n))))
		a.count(ctx, a.Add(ctx, deployment))
	}
	renewed := map[string]bool{}
	a.repeat(ctx, time.Second, func(i int) error {
		for j := range n {
			name := a.nth(j, n)
			running := kubelet.Serving(name)
			switch {
			case len(running) == 0: // its first certificate is not there yet
			case !renewed[name]: // in another second than that of its first certificate
				if !process.Sleep(ctx, time.Until(time.Now().Truncate(time.Second).Add(2*time.Second+time.Millisecond))) {
					return ctx.Err()
				}
				if _, err := a.Renew(ctx, name); err != nil {
					return err
				}
				renewed[name] = true
			case j%2 == 1:
				if err := a.flap(ctx, name, running[0].Address, i%2 == 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// flap has the youngest pod of a Deployment be ready or not.
func (a *attacker) flap(ctx context.Context, name, at string, ready bool) error {
	var pods corev1.PodList
	if err := a.List(ctx, &pods, client.InNamespace(a.Namespace), client.MatchingLabels{"app": name}); err != nil || len(pods.Items) < 2 {
		return err
	}
	youngest := slices.MaxFunc(pods.Items, func(p, q corev1.Pod) int { return p.CreationTimestamp.Compare(q.CreationTimestamp.Time) })
	return a.Runs(ctx, youngest.Name, at, ready)
}
