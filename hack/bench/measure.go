package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/measure/requests"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

type bench struct {
	options
	*measure.Cluster
	binary string // of what is measured
}

// results is what a run of the bench measured.
type results struct {
	rounds      []round
	warm        measure.Usage // a restart
	warmForeign measure.Usage // beside foreign Secrets
	p50, p99    time.Duration
	backlog     backlog
	answered    requests.Answered
}

func (b *bench) run(ctx context.Context) error {
	var r results
	var err error
	namespaces := map[string]map[string]string{
		api.DefaultNamespace: nil, coldNamespace: measure.OptedIn(), "single": measure.OptedIn(), "foreign": nil,
	}
	for _, f := range floors {
		namespaces[f.namespace] = nil
	}
	for ns, labels := range namespaces {
		if err := b.MakeNamespace(ctx, ns, labels); err != nil {
			return err
		}
	}
	if b.rounds == 0 {
		return b.runRequests(ctx)
	}
	if r.rounds, err = b.runRounds(ctx); err != nil {
		return err
	}
	if b.profile != "" {
		b.report(r)
		return nil
	}
	process.Step("%d Services one by one", b.single)
	if r.p50, r.p99, err = b.oneByOne(ctx); err != nil {
		return fmt.Errorf("one by one: %w", err)
	}
	process.Step("restarting the signer with %d certificates", b.n)
	if r.warm, err = b.restart(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := b.makeForeign(ctx); err != nil {
		return fmt.Errorf("foreign Secrets: %w", err)
	}
	if r.warmForeign, err = b.restart(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	process.Step("new Services and deleted Secrets while %d certificates are replaced", b.n)
	if r.backlog, err = b.behindRenewals(ctx); err != nil {
		return fmt.Errorf("behind renewals: %w", err)
	}
	if b.requests > 0 {
		if r.answered, err = b.answerRequests(ctx); err != nil {
			return err
		}
	}
	b.report(r)
	return nil
}

// runRequests measures the answers to requests alone, beside N certificates.
func (b *bench) runRequests(ctx context.Context) error {
	process.Step("issuing %d certificates", b.n)
	if _, err := b.issueFromCold(ctx); err != nil {
		return err
	}
	answered, err := b.answerRequests(ctx)
	if err != nil {
		return err
	}
	b.reportRequests(func(what, measured, budget string) { fmt.Printf("| %s | %s | %s |\n", what, measured, budget) }, answered)
	return nil
}

func (b *bench) answerRequests(ctx context.Context) (requests.Answered, error) {
	return requests.Run(ctx, requests.Config{Cluster: b.Cluster, Signer: b.binary, Workers: b.workers, Requests: b.requests, Secrets: b.n})
}

// each runs f for 0 … n-1, as many at a time as the signer has workers.
func (b *bench) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	return measure.Each(ctx, n, b.workers, f)
}

// startSigner starts the signer as deploy/install.yaml does.
func (b *bench) startSigner(ctx context.Context) (*measure.Process, error) {
	if err := b.makeProfileDir(); err != nil {
		return nil, err
	}
	return b.RunSigner(ctx, b.binary, b.workers)
}

// clear leaves the cluster as it was: what the floor made is not to be in the
// signer's caches.
func (b *bench) clear(ctx context.Context, namespace string) error {
	for _, resource := range []string{"secrets", "services"} {
		if err := b.Client.CoreV1().RESTClient().Delete().Namespace(namespace).Resource(resource).Do(ctx).Error(); err != nil {
			return fmt.Errorf("delete the %s of namespace %s: %w", resource, namespace, err)
		}
	}
	return nil
}

func (b *bench) countEvents(ctx context.Context) (int, error) {
	list, err := b.Client.EventsV1().Events(coldNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

// oneByOne creates a Service, waits for its Secret, and so on; the time counts
// from before the request to create it.
func (b *bench) oneByOne(ctx context.Context) (p50, p99 time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, measure.Patience)
	defer cancel()
	p, err := b.startSigner(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer p.Kill()
	if err := p.WaitReconciled(ctx, b.n); err != nil {
		return 0, 0, err
	}
	w, err := b.Client.CoreV1().Secrets("single").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer w.Stop()
	took := make([]time.Duration, 0, b.single)
	for i := range b.single {
		start := time.Now()
		if err := b.MakeService(ctx, "single", i, true); err != nil {
			return 0, 0, err
		}
		if _, ok := <-w.ResultChan(); !ok {
			return 0, 0, errors.New("the watch of Secrets ended")
		}
		took = append(took, time.Since(start))
	}
	return measure.Quantile(took, 0.5), measure.Quantile(took, 0.99), p.Stop()
}

// restart starts the signer on what it has issued, lets it look at everything,
// and stops it.
func (b *bench) restart(ctx context.Context) (measure.Usage, error) {
	p, err := b.startSigner(ctx)
	if err != nil {
		return measure.Usage{}, err
	}
	defer p.Kill()
	if err := p.WaitReconciled(ctx, b.n+b.single); err != nil {
		return measure.Usage{}, err
	}
	u, err := p.Usage()
	if err != nil {
		return measure.Usage{}, err
	}
	return u, p.Stop()
}

func (b *bench) makeForeign(ctx context.Context) error {
	process.Step("%d foreign Secrets of 1 MB", b.foreign)
	data := make([]byte, 1_000_000)
	return b.each(ctx, b.foreign, func(ctx context.Context, i int) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "foreign", Name: measure.Name(i)}, Data: map[string][]byte{"data": data}}
		_, err := b.Client.CoreV1().Secrets("foreign").Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}
