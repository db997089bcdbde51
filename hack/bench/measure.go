package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
)

type bench struct {
	options
	plane      *controlplane.ControlPlane
	client     kubernetes.Interface
	metadata   metadata.Interface
	binary     string // of what is measured
	dir        string
	kubeconfig string
}

// results is what a run of the bench measured.
type results struct {
	bare        time.Duration // the cryptography of a certificate
	rounds      []round
	warm        usage // a restart
	warmForeign usage // beside foreign Secrets
	p50, p99    time.Duration
	answered    answered
}

// patience bounds every wait for the signer.
const patience = 10 * time.Minute

func (b *bench) run(ctx context.Context) error {
	var r results
	var err error
	for ns, labels := range map[string]map[string]string{
		api.DefaultNamespace: nil, "floor": nil, "floor-watched": nil, coldNamespace: optedIn, "single": optedIn, "foreign": nil,
	} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: labels}}
		if _, err := b.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	step("the cryptography alone")
	if r.bare, err = bare(ctx, 2000); err != nil {
		return fmt.Errorf("cryptography: %w", err)
	}
	if r.rounds, err = b.runRounds(ctx); err != nil {
		return err
	}
	if b.profile != "" {
		b.report(r)
		return nil
	}
	step("%d Services one by one", b.single)
	if r.p50, r.p99, err = b.oneByOne(ctx); err != nil {
		return fmt.Errorf("one by one: %w", err)
	}
	step("restarting the signer with %d certificates", b.n)
	if r.warm, err = b.restart(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := b.makeForeign(ctx); err != nil {
		return fmt.Errorf("foreign Secrets: %w", err)
	}
	if r.warmForeign, err = b.restart(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if b.requests > 0 {
		if r.answered, err = b.runRequests(ctx); err != nil {
			return err
		}
	}
	b.report(r)
	return nil
}

// each runs f for 0 … n-1, as many at a time as the signer has workers.
func (b *bench) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(b.workers)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

func name(i int) string { return fmt.Sprintf("service-%05d", i) }

func (b *bench) makeService(ctx context.Context, namespace string, i int, annotated bool) error {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i)},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, // 10 000 addresses are not what is measured
			Selector:  map[string]string{"app": name(i)},
			Ports:     []corev1.ServicePort{{Name: "https", Port: 443}},
		},
	}
	if annotated {
		svc.Annotations = map[string]string{api.AnnotationSecretName: name(i) + "-tls"}
	}
	_, err := b.client.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
	return err
}

// clear leaves the cluster as it was: what the floor made is not to be in the
// signer's caches.
func (b *bench) clear(ctx context.Context, namespace string) error {
	for _, resource := range []string{"secrets", "services"} {
		if err := b.client.CoreV1().RESTClient().Delete().Namespace(namespace).Resource(resource).Do(ctx).Error(); err != nil {
			return fmt.Errorf("delete the %s of namespace %s: %w", resource, namespace, err)
		}
	}
	return nil
}

func (b *bench) checkReady(ctx context.Context, n int) error {
	list, err := b.client.CoreV1().Services(coldNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for i := range list.Items {
		if c := api.Condition(&list.Items[i], api.ConditionReady); c != nil && c.Status == metav1.ConditionTrue {
			ready++
		}
	}
	if ready != n {
		return fmt.Errorf("%d of %d Services are Ready", ready, n)
	}
	return nil
}

func (b *bench) countEvents(ctx context.Context) (int, error) {
	list, err := b.client.EventsV1().Events(coldNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

// oneByOne creates a Service, waits for its Secret, and so on; the time counts
// from before the request to create it.
func (b *bench) oneByOne(ctx context.Context) (p50, p99 time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := b.startSigner(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer p.kill()
	if err := p.waitReconciled(ctx, b.n); err != nil {
		return 0, 0, err
	}
	w, err := b.client.CoreV1().Secrets("single").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer w.Stop()
	took := make([]time.Duration, 0, b.single)
	for i := range b.single {
		start := time.Now()
		if err := b.makeService(ctx, "single", i, true); err != nil {
			return 0, 0, err
		}
		if _, ok := <-w.ResultChan(); !ok {
			return 0, 0, errors.New("the watch of Secrets ended")
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], p.stop()
}

// restart starts the signer on what it has issued, lets it look at everything,
// and stops it.
func (b *bench) restart(ctx context.Context) (usage, error) {
	p, err := b.startSigner(ctx)
	if err != nil {
		return usage{}, err
	}
	defer p.kill()
	if err := p.waitReconciled(ctx, b.n+b.single); err != nil {
		return usage{}, err
	}
	u, err := p.usage()
	if err != nil {
		return usage{}, err
	}
	return u, p.stop()
}

func (b *bench) makeForeign(ctx context.Context) error {
	step("%d foreign Secrets of 1 MB", b.foreign)
	data := make([]byte, 1_000_000)
	return b.each(ctx, b.foreign, func(ctx context.Context, i int) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "foreign", Name: name(i)}, Data: map[string][]byte{"data": data}}
		_, err := b.client.CoreV1().Secrets("foreign").Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}
