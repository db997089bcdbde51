package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/servingcert/servingcert/pkg/signer/cfssl"
)

// pair is a server and the bundle of a client.
type pair struct {
	running
	bundle bundle
}

// tested is a stack and its outcome for each pair.
type tested struct {
	stack
	release  string   // its version
	absent   []string // missing commands; there are no outcomes then
	outcomes []outcome
}

// matrix contains all pairs and outcomes.
type matrix struct {
	now    time.Time
	pairs  []pair
	stacks []tested
}

// try serves the scene and makes all stacks connect to it.
func try(ctx context.Context, sc *scene, all []stack, now time.Time) (*matrix, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "tlsstacks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	pairs, attempts, err := sc.start(ctx, dir, now)
	if err != nil {
		return nil, err
	}
	m := &matrix{now: now, pairs: pairs, stacks: make([]tested, len(all))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i, s := range all {
		m.stacks[i] = tested{stack: s, absent: s.missing()}
		if len(m.stacks[i].absent) > 0 {
			continue
		}
		group.Go(func() error {
			var err error
			if m.stacks[i].release, err = s.readVersion(ctx); err == nil {
				m.stacks[i].outcomes, err = s.connect(ctx, attempts)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			return nil
		})
	}
	return m, group.Wait()
}

// start serves everything until ctx ends, and returns all pairs with their attempts.
func (s *scene) start(ctx context.Context, dir string, now time.Time) ([]pair, []attempt, error) {
	sign, err := cfssl.NewLocal()
	if err != nil {
		return nil, nil, err
	}
	held := map[*succession]map[string]trust{}
	for _, ca := range []*succession{s.ca, s.expired, s.expired2} {
		if held[ca], err = trusts(dir, ca, s.unknown); err != nil {
			return nil, nil, err
		}
	}
	var (
		pairs    []pair
		attempts []attempt
	)
	for _, srv := range s.servers {
		r, err := serve(ctx, srv, sign, now)
		if err != nil {
			return nil, nil, err
		}
		for _, b := range bundles() {
			if t, ok := held[srv.bundlesOf()][b.String()]; ok && (!srv.few || b.isOfFew()) {
				pairs = append(pairs, pair{r, b})
				attempts = append(attempts, attempt{port: r.port, host: srv.host, trust: t})
			}
		}
	}
	return pairs, attempts, nil
}

// hole describes a wrong outcome of the pair in the stack; "" if it is right.
func (m *matrix) hole(t tested, i int) string {
	var (
		p       = m.pairs[i]
		got     = t.outcomes[i]
		promise = p.promised(p.bundle, t.stack, m.now)
		who     = fmt.Sprintf("%s with the bundle %s, served [%s] %s", t.name, p.bundle, p, p.chain())
	)
	switch {
	case got.kind == broken && promise != mayFail:
		return fmt.Sprintf("%s: failed for another reason than the certificate: %s", who, got.detail)
	case promise == mustVerify && got.kind == refused:
		return fmt.Sprintf("%s: must accept and rejects: %s", who, got.detail)
	case promise == mustRefuse && got.kind == verified:
		return who + ": must reject and accepts"
	}
	return ""
}

// holes returns all holes, including required stacks that are missing.
func (m *matrix) holes(required []string) []string {
	var holes []string
	for _, name := range required {
		for _, t := range m.stacks {
			for _, command := range t.absent {
				if command == name {
					holes = append(holes, fmt.Sprintf("%s is required and not installed: %s was not tested", name, t.name))
				}
			}
		}
	}
	for _, t := range m.stacks {
		for i := range t.outcomes {
			if hole := m.hole(t, i); hole != "" {
				holes = append(holes, hole)
			}
		}
	}
	return holes
}
