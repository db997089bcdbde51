package main

import (
	"context"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
)

// round is the cryptography alone, the floors and the signer, one after another on the same control plane.
type round struct {
	bare   time.Duration   // the cryptography of a certificate
	floors []measure.Phase // as floors
	cold   cold
}

// cold is a signer that finds Services without certificates.
type cold struct {
	measure.Cold
	collected process.Collections // in its whole life
}

// gcShare is the part of the signer's CPU time that its garbage collector took.
func (c cold) gcShare() float64 { return c.collected.CPU.Seconds() / c.Total.CPU.Seconds() }

// heapEach is the live heap for one certificate, in bytes.
func (c cold) heapEach() float64 { return c.collected.Live / float64(c.N) }

// runRounds measures the floors and the signer once a round, each in another place of the round every time: what
// came before has filled etcd and warmed the API server.
func (b *bench) runRounds(ctx context.Context) ([]round, error) {
	rounds := make([]round, b.rounds)
	for i := range rounds {
		r := &rounds[i]
		process.Step("round %d: the cryptography alone", i+1)
		var err error
		if r.bare, err = bare(ctx, 2000); err != nil {
			return nil, fmt.Errorf("cryptography: %w", err)
		}
		r.floors = make([]measure.Phase, len(floors))
		var steps []func() error
		for k, f := range floors {
			steps = append(steps, func() (err error) {
				process.Step("round %d: %s, %d of them, %d at a time", i+1, f.what, b.n, b.workers)
				r.floors[k], err = b.runFloor(ctx, f)
				return err
			})
		}
		steps = append(steps, func() (err error) {
			process.Step("round %d: the signer, for %d Services", i+1, b.n)
			r.cold, err = b.issueFromCold(ctx)
			return err
		})
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
	if err := b.each(ctx, b.n, func(ctx context.Context, i int) error { return b.MakeService(ctx, coldNamespace, i, true) }); err != nil {
		return c, err
	}
	p, err := b.startSigner(ctx)
	if err != nil {
		return c, err
	}
	defer p.Kill()
	if c.Cold, err = b.IssueCold(ctx, p, measure.Issued{Namespace: coldNamespace, N: b.n}); err != nil {
		return c, err
	}
	if c.Total.Events, err = b.countEvents(ctx); err != nil {
		return c, err
	}
	if err := b.writeProfile(ctx, p); err != nil {
		return c, err
	}
	if err := p.Stop(); err != nil {
		return c, err
	}
	c.collected, err = p.Collections()
	return c, err
}
