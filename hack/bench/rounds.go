package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// round is the floors and the signer, one after another on the same control plane.
type round struct {
	bare, watched phase
	cold          cold
}

// cold is a signer that finds Services without certificates.
type cold struct {
	phase                   // from its first certificate to its last condition
	started   time.Duration // from its start to the first certificate
	total     usage
	collected collections // in its whole life
}

// gcShare is the part of the signer's CPU time that its garbage collector took.
func (c cold) gcShare() float64 { return c.collected.cpu.Seconds() / c.total.cpu.Seconds() }

// heapEach is the live heap for one certificate, in bytes.
func (c cold) heapEach() float64 { return c.collected.live / float64(c.n) }

// runRounds measures the floors and the signer once a round, each in another place of the round every time: what
// came before has filled etcd and warmed the API server.
func (b *bench) runRounds(ctx context.Context) ([]round, error) {
	rounds := make([]round, b.rounds)
	for i := range rounds {
		r := &rounds[i]
		steps := []func() error{
			func() (err error) {
				step("round %d: bare writes, %d pairs, %d at a time", i+1, b.n, b.workers)
				r.bare, err = b.floor(ctx, "floor", false)
				return err
			},
			func() (err error) {
				step("round %d: the same beside the signer's watches", i+1)
				r.watched, err = b.floor(ctx, "floor-watched", true)
				return err
			},
			func() (err error) {
				step("round %d: the signer, for %d Services", i+1, b.n)
				r.cold, err = b.issueFromCold(ctx)
				return err
			},
		}
		for k := range steps {
			if err := steps[(i+k)%len(steps)](); err != nil {
				return nil, fmt.Errorf("round %d: %w", i+1, err)
			}
		}
		if last := i == len(rounds)-1; !last {
			if err := b.clear(ctx, coldNamespace); err != nil {
				return nil, err
			}
		}
	}
	return rounds, nil
}

// coldNamespace holds the Services that the signer finds when it starts.
const coldNamespace = "cold"

// issueFromCold makes N annotated Services, starts the signer, and waits until all are
// Ready. What it issues stays.
func (b *bench) issueFromCold(ctx context.Context) (c cold, err error) {
	if err := b.each(ctx, b.n, func(ctx context.Context, i int) error { return b.makeService(ctx, coldNamespace, i, true) }); err != nil {
		return c, err
	}
	p, err := b.startSigner(ctx)
	if err != nil {
		return c, err
	}
	defer p.kill()
	first, err := b.waitFirst(ctx, p)
	if err != nil {
		return c, err
	}
	m, err := b.begin(ctx, p)
	if err != nil {
		return c, err
	}
	c.started = m.start.Sub(p.started)
	if err := b.waitIssued(ctx, p, m.start, first); err != nil {
		return c, err
	}
	if c.phase, err = m.end(ctx, b.n-first); err != nil {
		return c, err
	}
	if c.total, err = p.usage(); err != nil {
		return c, err
	}
	if err := b.checkReady(ctx, b.n); err != nil {
		return c, err
	}
	if c.total.events, err = b.countEvents(ctx); err != nil {
		return c, err
	}
	if err := b.writeProfile(ctx, p); err != nil {
		return c, err
	}
	if err := p.stop(); err != nil {
		return c, err
	}
	log, err := os.Open(p.log)
	if err != nil {
		return c, err
	}
	c.collected, err = readCollections(log)
	return c, errors.Join(err, log.Close())
}

// waitFirst waits for the signer's first Secrets, and returns how many there are.
func (b *bench) waitFirst(ctx context.Context, p *process) (n int, err error) {
	err = p.wait(ctx, "first Secret", func() (time.Duration, bool) {
		n, err = b.countSecrets(ctx)
		return shortPoll, err == nil && n > 0
	})
	return n, err
}

// waitIssued waits until all Secrets are there, and then until all conditions are written.
// Each question takes from what is measured, so it is asked seldom: after half of the time
// that is left at the rate so far. A scrape looks at every certificate and comes last.
func (b *bench) waitIssued(ctx context.Context, p *process, start time.Time, first int) error {
	err := p.wait(ctx, fmt.Sprintf("%d Secrets", b.n), func() (time.Duration, bool) {
		n, err := b.countSecrets(ctx)
		return pollAfter(n-first, b.n-first, time.Since(start)), err == nil && n == b.n
	})
	if err != nil {
		return err
	}
	return p.wait(ctx, fmt.Sprintf("%d conditions", b.n), func() (time.Duration, bool) {
		m, err := p.scrape()
		written := m.sum("rest_client_requests_total", "method", "PATCH")
		return pollAfter(int(written), b.n, time.Since(start)), err == nil && written >= float64(b.n)
	})
}

// shortPoll is the shortest pause between two questions.
const shortPoll = 20 * time.Millisecond

// pollAfter returns when to ask again of what did done of n since its start: after half of
// the time that the rest will take.
func pollAfter(done, n int, since time.Duration) time.Duration {
	if done <= 0 {
		return shortPoll
	}
	return max(shortPoll, since*time.Duration(n-done)/time.Duration(done)/2)
}

// countSecrets asks the cheapest question that tells how many Secrets there are.
func (b *bench) countSecrets(ctx context.Context) (int, error) {
	list, err := b.client.CoreV1().Secrets(coldNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}
