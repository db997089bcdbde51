package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/hack/scenes/invariant"
)

// action is what happens in a scene. It returns what there is to say.
type action func(ctx context.Context, k *work) (said string, err error)

// scene is a fault, an attack, or neither, which happens while tenants work.
type scene struct {
	name, what string
	// tenants are the namespaces of tenants that take the place of those of the scene before. Without
	// any these stay.
	tenants []string
	// tolerates is the worst that may become of a request of a tenant, who then makes it again. Where
	// nothing is tolerated, an operation fails with its first request, and no process may end.
	tolerates invariant.Outcome
	root      bool // it takes root
	alike     bool // a short run leaves it out: another fault is like it
	clock     bool // so too: it takes programs that are compiled anew, with all that they import
	rewinds   bool // the cluster forgets what it knew
	// do breaks something, holds it for a time, and mends it.
	do action
	// attack does something to all others, again and again until ctx ends. Its rate is bounded, so
	// that what is shown is more than a busy API server.
	attack func(ctx context.Context, a *attacker)
}

// result is what was seen of a scene.
type result struct {
	*scene
	held, settled time.Duration
	samples       map[string]samples // by operation
	refused, away int                // requests, which were made again
	ends          []string
	peak          map[string]float64 // bytes, by kind of process
	said          string
	violations    []string
}

// play plays a scene and returns what was seen of it.
func (w *world) play(ctx context.Context, s *scene) *result {
	process.Step("%s: %s", s.name, s.what)
	r := &result{scene: s, peak: map[string]float64{}}
	check := func(err error) {
		if err != nil {
			r.violations = append(r.violations, err.Error())
		}
	}
	for _, p := range w.Processes {
		check(p.Reset())
	}
	k, start := w.startWork(ctx, s), time.Now()
	var err error
	r.said, err = s.do(ctx, k)
	check(err)
	r.held = time.Since(start)
	k.mended()
	r.settled, err = w.settle(ctx)
	check(err)
	k.end()
	if s.rewinds { // what was signed before its controllers were restarted is gone by now
		w.sightings.begin()
	}
	foreign, err := w.foreigners(ctx)
	check(err)
	r.violations = append(r.violations, invariant.Foreign(w.foreign, foreign)...)
	for len(w.noted) > 0 {
		r.violations = append(r.violations, <-w.noted)
	}
	for _, p := range w.Processes {
		peak := p.Used().Peak
		r.peak[p.Kind] = max(r.peak[p.Kind], peak)
		if p.Limit > 0 && peak > float64(p.Limit) {
			check(fmt.Errorf("the %s had %s resident: its limit is %s", p.Name(), installed.MiB(peak), installed.MiB(float64(p.Limit))))
		}
		for _, why := range p.Ends() {
			r.ends = append(r.ends, "the "+p.Name()+" ended: "+why)
		}
	}
	r.judge(k)
	process.Step("%s: %s; settled %s after; %v", s.name, r.said, installed.Short(r.settled), r.violations)
	return r
}

// judge adds what the operations and the ends of processes violate.
func (r *result) judge(k *work) {
	r.samples, r.away, r.refused = k.samples, k.failed[away], k.failed[refused]
	if err := k.last[refused]; err != nil {
		process.Step("%s: the last refusal: %s", r.name, err)
	}
	for _, why := range r.ends {
		if r.tolerates == invariant.Done {
			r.violations = append(r.violations, why)
		} else {
			process.Step("%s: %s", r.name, why)
		}
	}
	for _, l := range k.lanes {
		s := r.samples[l.operation]
		switch {
		case s.failed > 0:
			r.violations = append(r.violations, fmt.Sprintf("%s: %d failed, the last: %s", l.operation, s.failed, s.err))
		case len(s.took) == 0 || l.pause == 0 && len(s.took) < l.workers:
			r.violations = append(r.violations, fmt.Sprintf("%s: %d were measured", l.operation, len(s.took)))
		}
	}
}

// play plays scenes in one world, one after the other, and judges the whole. There may be a report
// and an error.
func play(ctx context.Context, o *options) (r *report, err error) {
	w, err := newWorld(ctx, o.setting)
	defer func() {
		if w.kubelet != nil {
			w.kubelet.Close()
		}
		err = errors.Join(err, w.Stop(o.keepLogs))
	}()
	if err != nil {
		return nil, err
	}
	r = &report{setting: o.setting}
	var before map[string]invariant.Usage // after the first scene
	for n, s := range o.scenes {
		if s.root && w.disk == nil {
			r.results = append(r.results, &result{scene: s, said: "not done: it takes root and unshare"})
			continue
		}
		if s.tenants != nil {
			if err := w.populate(ctx, s.tenants...); err != nil {
				return r, err
			}
		}
		r.results = append(r.results, w.play(ctx, s))
		if ctx.Err() != nil {
			return r, fmt.Errorf("%s: %w", s.name, ctx.Err())
		}
		if n == 0 && w.proxies {
			if before, err = w.usage(ctx); err != nil {
				return r, err
			}
		}
	}
	if r.violations = w.sightings.judge(w.interim); w.proxies {
		process.Sleep(ctx, 2*w.hold) // for what is over to be given back
		after, err := w.usage(ctx)
		if err != nil {
			return r, err
		}
		r.violations = append(r.violations, invariant.Leaks(before, after)...)
	}
	return r, nil
}

// report is what was seen of all scenes.
type report struct {
	setting
	results    []*result
	violations []string // of the whole run
}

// print prints a row for each scene, with how often each operation was done, p50 and p99, and with the
// most memory that a process had resident.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\nservingcert %s: %s, %d cores, %d Services, each scene held for at least %s, %s\n\n",
		r.name, runtime.Version(), runtime.NumCPU(), r.services, r.hold, time.Now().UTC().Format("2006-01-02"))
	table := [][]string{{"scene", "held", "all well after", "refused, then done", "API away", "processes that ended", "violations"}}
	for _, l := range r.lanes {
		table[0] = append(table[0], l.operation)
	}
	table[0] = append(table[0], installed.Kinds()...)
	for _, s := range r.results {
		row := []string{
			s.scene.name, installed.Short(s.held), installed.Short(s.settled),
			fmt.Sprint(s.refused), fmt.Sprint(s.away), fmt.Sprint(len(s.ends)), fmt.Sprint(len(s.violations)),
		}
		for _, l := range r.lanes {
			took := s.samples[l.operation].took
			row = append(row, fmt.Sprintf("%d: %s, %s", len(took), installed.Short(process.Quantile(took, 0.5)), installed.Short(process.Quantile(took, 0.99))))
		}
		for _, kind := range installed.Kinds() {
			row = append(row, installed.MiB(s.peak[kind]))
		}
		table = append(table, row)
	}
	installed.Table(out, table)
	for _, s := range r.results {
		if s.said != "" {
			fmt.Fprintf(out, "%s: %s\n", s.scene.name, s.said)
		}
	}
}

// failures are what makes the exit code 1.
func (r *report) failures() []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, s := range r.results {
		for _, v := range s.violations {
			out = append(out, s.scene.name+": "+v)
		}
	}
	return append(out, r.violations...)
}
