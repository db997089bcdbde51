package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/servingcert/servingcert/hack/process"
)

// cold holds the figures of a signer that finds N Services without certificates, and of the bare client.
type cold struct {
	floor, rate   float64 // certificates a second
	peak, live    float64 // bytes: peak resident memory, and live heap
	cpu           time.Duration
	writes, reads float64
	events        int
}

// measureSigner measures the signer of Services' certificates.
func (b *bench) measureSigner(ctx context.Context) error {
	if err := b.measureRounds(ctx); err != nil {
		return err
	}
	if err := b.oneByOne(ctx); err != nil {
		return err
	}
	return b.restarts(ctx)
}

// measureRounds measures the bare client and the signer once per round. They take turns in being
// first: the second one finds a fuller etcd and a warm API server.
func (b *bench) measureRounds(ctx context.Context) error {
	rounds := make([]cold, b.rounds)
	for i := range rounds {
		b.Say("round %d: %d certificates by a bare client and by the signer, %d concurrently", i+1, b.n, workers)
		var floor float64
		for k := range 2 {
			var err error
			if (i+k)%2 == 0 {
				floor, err = b.runFloor(ctx)
			} else {
				rounds[i], err = b.issueFromCold(ctx)
			}
			if err != nil {
				return fmt.Errorf("round %d: %w", i+1, err)
			}
		}
		rounds[i].floor = floor
		if last := i == len(rounds)-1; !last {
			if err := b.clear(ctx, coldNamespace); err != nil {
				return err
			}
		}
	}
	n := float64(b.n)
	row := func(what, budget, verb string, figure func(cold) float64) {
		b.row(what, budget, "%s", process.Of(rounds, figure).Format(verb))
	}
	row("bare client that makes each certificate, per second", "(the floor)", "%.0f", func(c cold) float64 { return c.floor })
	row("signer: from its first certificate to its last, per second", "", "%.0f", func(c cold) float64 { return c.rate })
	row("  ratio", "≥ 0.7", "%.2f", func(c cold) float64 { return c.rate / c.floor })
	row("  CPU a certificate, its start included, ms", "", "%.2f", func(c cold) float64 { return ms(c.cpu) / n })
	row("  API writes a certificate", "2", "%.3f", func(c cold) float64 { return c.writes / n })
	row("  API reads a certificate, lists and watches included", "0", "%.3f", func(c cold) float64 { return c.reads / n })
	row("  events written", "0", "%.0f", func(c cold) float64 { return float64(c.events) })
	row(fmt.Sprintf("  peak RSS issuing %d, MiB", b.n), "≤ 180 at 10 000", "%.1f", func(c cold) float64 { return c.peak / (1 << 20) })
	row("  live heap a certificate, KiB", "", "%.1f", func(c cold) float64 { return c.live / 1024 / n })
	return nil
}

// issueFromCold creates N annotated Services, starts the signer, and waits until all are Ready. The
// certificates are kept.
func (b *bench) issueFromCold(ctx context.Context) (c cold, err error) {
	if err := process.Each(ctx, b.n, workers, func(ctx context.Context, i int) error { return b.makeService(ctx, coldNamespace, i, asks(i)) }); err != nil {
		return c, err
	}
	p, err := b.startSigner(ctx)
	if err != nil {
		return c, err
	}
	defer b.kill(p)
	var start time.Time
	first, have := 0, 0
	// Each request takes CPU time from the signer, so they are rare. The signer is not scraped: a
	// scrape reads every certificate.
	if err := p.wait(ctx, fmt.Sprintf("%d Secrets", b.n), func() (time.Duration, bool) {
		if have, err = b.countSecrets(ctx, coldNamespace); first == 0 && have > 0 {
			first, start = have, time.Now()
		}
		return pollAfter(have-first, b.n-first, time.Since(start)), err == nil && have >= b.n
	}); err != nil {
		return c, err
	}
	c.rate, b.issued = float64(have-first)/time.Since(start).Seconds(), b.n
	if err := p.wait(ctx, "write of each condition", func() (time.Duration, bool) {
		metrics, err := p.Scrape(ctx)
		c.writes, c.reads = metrics.Writes(), metrics.Sum("rest_client_requests_total", "method", http.MethodGet)
		return 10 * shortPoll, err == nil && c.writes >= 2*float64(b.n)
	}); err != nil {
		return c, err
	}
	collected, err := p.Collections()
	if err != nil {
		return c, err
	}
	events, err := b.Clientset.EventsV1().Events(coldNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, err
	}
	c.live, c.peak, c.cpu, c.events = collected.Live, p.Used().Peak, p.Used().CPU, len(events.Items)
	return c, b.stop(p)
}

// countSecrets returns the number of Secrets in a namespace, at the lowest cost.
func (b *bench) countSecrets(ctx context.Context, namespace string) (int, error) {
	list, err := b.Clientset.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	if rest := list.RemainingItemCount; rest != nil {
		return len(list.Items) + int(*rest), nil
	}
	return len(list.Items), nil
}

// ensureIssued issues the certificates, unless another part has done so.
func (b *bench) ensureIssued(ctx context.Context) (err error) {
	if b.issued == 0 {
		_, err = b.issueFromCold(ctx)
	}
	return err
}

// oneByOne creates Services, waiting for the Secret of each. The time includes the creation of the Service.
func (b *bench) oneByOne(ctx context.Context) error {
	b.Say("%d Services one by one", single)
	p, err := b.restartSigner(ctx)
	if err != nil {
		return err
	}
	defer b.kill(p)
	w, err := b.Clientset.CoreV1().Secrets(singleNamespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	took := make([]time.Duration, single)
	for i := range took {
		start := time.Now()
		if err := b.makeService(ctx, singleNamespace, i, asks(i)); err != nil {
			return err
		}
		if event := <-w.ResultChan(); event.Type != watch.Added {
			return errors.New("the watch of Secrets ended")
		}
		took[i] = time.Since(start)
	}
	b.issued += single
	b.row("Service created → Secret there, one at a time, p50 / p99", "10 / 50 ms", "%.1f / %.1f ms", ms(process.Quantile(took, 0.5)), ms(process.Quantile(took, 0.99)))
	return b.stop(p)
}

// restarts measures the restart of a signer with many certificates, without and with large foreign Secrets.
func (b *bench) restarts(ctx context.Context) error {
	var took [2]time.Duration
	var peak [2]float64 // MiB
	for i, beside := range []int{0, foreign} {
		b.Say("restarting the signer with %d certificates and %d foreign Secrets of 1 MB", b.issued, beside)
		data := make([]byte, 1_000_000)
		if err := process.Each(ctx, beside, workers, func(ctx context.Context, i int) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName(i)}, Data: map[string][]byte{"data": data}}
			_, err := b.Clientset.CoreV1().Secrets(foreignNamespace).Create(ctx, secret, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
		p, err := b.restartSigner(ctx)
		if err != nil {
			return err
		}
		took[i], peak[i] = time.Since(p.begun), p.Used().Peak/(1<<20)
		if err := b.stop(p); err != nil {
			return err
		}
	}
	b.row(fmt.Sprintf("restart with %d certificates: until all are checked", b.issued), "", "%.1f s", took[0].Seconds())
	b.row("  peak RSS", "≤ 180 MiB at 10 000", "%.1f MiB", peak[0])
	b.row(fmt.Sprintf("  the same with %d foreign Secrets of 1 MB", foreign), "≤ + 8 MiB", "%.1f MiB (%+.1f)", peak[1], peak[1]-peak[0])
	return nil
}
