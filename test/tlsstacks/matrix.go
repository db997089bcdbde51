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

// pair is a server and a bundle that a client of it holds.
type pair struct {
	running
	bundle bundle
}

// tested is a stack and what came of each pair.
type tested struct {
	stack
	tells    string   // its version
	absent   []string // commands that are missing; then there are no outcomes
	outcomes []outcome
}

// matrix is everything that was tried.
type matrix struct {
	now    time.Time
	pairs  []pair
	stacks []tested
}

// try serves all of the scene and has the stacks connect to it.
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
			if m.stacks[i].tells, err = s.tellVersion(ctx); err == nil {
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

// start serves everything until ctx ends, and returns every pair that there is
// with the attempt to make.
func (s *scene) start(ctx context.Context, dir string, now time.Time) ([]pair, []attempt, error) {
	sign, err := cfssl.NewLocal()
	if err != nil {
		return nil, nil, err
	}
	held := map[*succession]map[string]trust{}
	for _, ca := range []*succession{s.ca, s.expired, s.expired2} {
		if held[ca], err = trusts(dir, ca, s.stranger); err != nil {
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

// hole says what is wrong with what came of the pair in the stack, or "".
func (m *matrix) hole(t tested, i int) string {
	var (
		p       = m.pairs[i]
		got     = t.outcomes[i]
		promise = p.promised(p.bundle, t.stack, m.now)
		who     = fmt.Sprintf("%s with the bundle %s, served [%s] %s", t.name, p.bundle, p, p.chain())
	)
	switch {
	case got.kind == broken:
		return fmt.Sprintf("%s: failed for another reason than the certificate: %s", who, got.detail)
	case promise == mustVerify && got.kind == refused:
		return fmt.Sprintf("%s: has to verify and does not: %s", who, got.detail)
	case promise == mustRefuse && got.kind == verified:
		return who + ": has to be refused and is accepted"
	}
	return ""
}

// holes returns everything that is wrong, stacks that are required and missing
// included.
func (m *matrix) holes(required []string) []string {
	var holes []string
	for _, name := range required {
		for _, t := range m.stacks {
			for _, command := range t.absent {
				if command == name {
					holes = append(holes, fmt.Sprintf("%s is required and not installed: nothing is known of %s", name, t.name))
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
