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

// action is what happens in a scene. It returns a remark for the report.
type action func(ctx context.Context, k *work) (said string, err error)

// scene is a fault, an attack, or neither, which happens while tenants work.
type scene struct {
	name, what string
	// tenants are the namespaces of the tenants, which replace those of the previous scene. If there
	// are none, the previous ones stay.
	tenants []string
	// tolerates is the worst permitted outcome of a tenant's request, which is then repeated. If it is
	// Done, an operation fails with its first failed request, and no process may end.
	tolerates invariant.Outcome
	root      bool // it needs root
	alike     bool // a short run omits it, because another fault is similar
	clock     bool // a short run omits it, because it compiles the programs again, with all their imports
	rewinds   bool // the cluster returns to an earlier state
	// do breaks something, waits for some time, and repairs it.
	do action
	// attack repeats an attack on all other tenants until ctx ends. Its rate is bounded, so that the
	// result shows more than a busy API server.
	attack func(ctx context.Context, a *attacker)
}

// result is what was observed in a scene.
type result struct {
	*scene
	held, settled time.Duration
	samples       map[string]samples // by operation
	refused, away int                // requests that were repeated
	ends          []string
	peak          map[string]float64 // bytes, by kind of process
	said          string
	violations    []string
}

// play plays a scene and returns the result.
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
	if s.rewinds { // certificates signed before the controllers were restarted are gone by now
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

// judge adds the violations by operations and by processes that ended.
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

// play plays scenes in one world, one after the other, and checks the whole run. It may return both
// a report and an error.
func play(ctx context.Context, o *options) (r *report, err error) {
	w, err := newWorld(ctx, o.setting)
	defer func() {
		if w.kubelet != nil {
			w.kubelet.Close()
		}
		err = errors.Join(err, w.Stop())
	}()
	if err != nil {
		return nil, err
	}
	r = &report{setting: o.setting}
	var before map[string]invariant.Usage // after the first scene
	for n, s := range o.scenes {
		if s.root && w.disk == nil {
			r.results = append(r.results, &result{scene: s, said: "not done: it needs root and unshare"})
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
		process.Sleep(ctx, 2*w.hold) // until memory and goroutines of the last scene are released
		after, err := w.usage(ctx)
		if err != nil {
			return r, err
		}
		r.violations = append(r.violations, invariant.Leaks(before, after)...)
	}
	return r, nil
}

// report has the results of all scenes.
type report struct {
	setting
	results    []*result
	violations []string // of the whole run
}

// print prints a row for each scene, with the count, p50 and p99 of each operation, and the peak
// resident memory of each kind of process.
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

// failures returns the violations, for which the exit code is 1.
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
