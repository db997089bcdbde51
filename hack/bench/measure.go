package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

type bench struct {
	options
	plane      *controlplane.ControlPlane
	client     kubernetes.Interface
	binary     string // of what is measured
	dir        string
	kubeconfig string
}

type results struct {
	floorBefore, floorAfter float64 // certificates a second
	cold, warm, warmForeign usage
	p50, p99                time.Duration
	answered                answered
}

// patience bounds every wait for the signer.
const patience = 10 * time.Minute

func (b *bench) run(ctx context.Context) error {
	var r results
	var err error
	for _, ns := range []string{api.DefaultNamespace, "floor-before", "floor-after", "cold", "single", "foreign"} {
		labels := map[string]string{}
		if ns == "cold" || ns == "single" {
			labels[api.LabelInject] = api.InjectEnabled
		}
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: labels}}
		if _, err := b.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if r.floorBefore, err = b.floor(ctx, "floor-before"); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	if r.cold, err = b.issueFromCold(ctx, &r); err != nil {
		return fmt.Errorf("cold: %w", err)
	}
	if r.floorAfter, err = b.floor(ctx, "floor-after"); err != nil {
		return fmt.Errorf("floor: %w", err)
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

// floor makes the writes that the signer makes, of the same size, and nothing
// else, and returns how many pairs it made a second.
func (b *bench) floor(ctx context.Context, namespace string) (float64, error) {
	step("bare writes, %d pairs, %d at a time", b.n, b.workers)
	if err := b.each(ctx, b.n, func(ctx context.Context, i int) error { return b.makeService(ctx, namespace, i, false) }); err != nil {
		return 0, err
	}
	certPEM, keyPEM, err := pair()
	if err != nil {
		return 0, err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{{
		Type:    "bench/Ready", // not the signer's, which would take it away Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(),
		Message: strings.Repeat("as long as ours is", 10),
	}}}})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = b.each(ctx, b.n, func(ctx context.Context, i int) error {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name(i) + "-tls", Labels: map[string]string{"made-by": "bench"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name(i), UID: types.UID("00000000-0000-0000-0000-000000000000")}},
			},
			Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
		}
		if _, err := b.client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := b.client.CoreV1().Services(namespace).Patch(ctx, name(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	rate := float64(b.n) / time.Since(start).Seconds()
	return rate, errors.Join(err, b.clear(ctx, namespace))
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

// pair returns a certificate and its key, of the size and form of those that the
// signer writes: the API server looks at them.
func pair() (certPEM, keyPEM []byte, err error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	cert, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, now, now.Add(time.Hour))
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = pki.EncodeKey(key)
	return pki.EncodeCertificates(cert), keyPEM, err
}

// issueFromCold makes N annotated Services, starts the signer, waits until all
// are Ready, and then has it issue one by one.
func (b *bench) issueFromCold(ctx context.Context, r *results) (usage, error) {
	step("%d annotated Services", b.n)
	if err := b.each(ctx, b.n, func(ctx context.Context, i int) error { return b.makeService(ctx, "cold", i, true) }); err != nil {
		return usage{}, err
	}
	step("starting the signer")
	p, err := b.startSigner(ctx)
	if err != nil {
		return usage{}, err
	}
	defer p.kill()
	if err := b.waitIssued(ctx, p, "cold", b.n); err != nil {
		return usage{}, err
	}
	u, err := p.usage()
	if err != nil {
		return usage{}, err
	}
	if err := b.checkReady(ctx, b.n); err != nil {
		return usage{}, err
	}
	u.n = b.n
	if u.events, err = b.countEvents(ctx); err != nil {
		return usage{}, err
	}
	step("%d Services one by one", b.single)
	if r.p50, r.p99, err = b.oneByOne(ctx); err != nil {
		return usage{}, err
	}
	return u, p.stop()
}

func (b *bench) checkReady(ctx context.Context, n int) error {
	list, err := b.client.CoreV1().Services("cold").List(ctx, metav1.ListOptions{})
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
	list, err := b.client.EventsV1().Events("cold").List(ctx, metav1.ListOptions{})
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
	return took[len(took)/2], took[len(took)*99/100], nil
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
