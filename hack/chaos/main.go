// Command chaos breaks what servingcert stands on and sees what becomes of it: make chaos.
//
// It runs etcd, kube-apiserver and kube-controller-manager on loopback, and two replicas each
// of signer, rotator and webhook beside them, as processes with the ServiceAccounts and the
// RBAC of deploy/install.yaml. Hundreds of Services have their certificates, and pods are
// created all the while. Then one fault after the other is made, held and mended, while more
// Services are created and certificates renewed. After each, everything must be as it should.
//
// As root it runs in a mount namespace of its own, so that nothing is left of the disk that
// it fills, however it ends.
//
// The exit code is 1 if something is not as it should be. docs/reliability.md says what that
// is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/chaos/world"
	"github.com/servingcert/servingcert/hack/process"
)

// options are what may be asked of a run.
type options struct {
	services   int
	namespaces int
	hold       time.Duration
	faults     []breakage
	keepLogs   string // directory, or empty
}

func main() { process.Main("chaos", run) }

func run(ctx context.Context) error {
	o, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	if code, done := inNamespace(); done {
		os.Exit(code)
	}
	r, err := play(ctx, o)
	if r == nil {
		return err
	}
	r.print(os.Stdout)
	return errors.Join(err, process.Failed(r.failures()))
}

func parse(args []string) (options, error) {
	var o options
	var names string
	var short bool
	fs := pflag.NewFlagSet("chaos", pflag.ContinueOnError)
	fs.IntVar(&o.services, "services", 500, "how many Services there are from the beginning; at least 50")
	fs.IntVar(&o.namespaces, "namespaces", 10, "in how many namespaces")
	fs.DurationVar(&o.hold, "hold", 8*time.Second, "how long a fault is held at least; at least 1s")
	fs.StringVar(&names, "faults", "", "names of faults, comma-separated (default: all)")
	fs.BoolVar(&short, "short", false, "150 Services, 3s, and without faults of clocks and those that are like another one, unless other flags say so")
	fs.StringVar(&o.keepLogs, "logs", "", "directory that the logs of all processes are copied to")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if short {
		o.shorten(fs.Changed)
	}
	switch {
	case o.services < 50:
		return o, fmt.Errorf("--services %d: must be at least 50", o.services)
	case o.namespaces < 1 || o.namespaces > 50:
		return o, fmt.Errorf("--namespaces %d: must be 1 to 50", o.namespaces)
	case o.hold < time.Second:
		return o, fmt.Errorf("--hold %s: must be at least 1s", o.hold)
	}
	var err error
	o.faults, err = process.Choose("faults", names, breakages(), func(b breakage) string { return b.name })
	if short && names == "" {
		o.faults = slices.DeleteFunc(o.faults, func(b breakage) bool { return b.alike || b.clock })
	}
	return o, err
}

// shorten sets what was not given.
func (o *options) shorten(given func(name string) bool) {
	if !given("services") {
		o.services = 150
	}
	if !given("hold") {
		o.hold = 3 * time.Second
	}
}

// play runs everything. There may be a report and an error.
func play(ctx context.Context, o options) (r *report, err error) {
	w, err := world.New(ctx, world.Options{
		Services: o.services, Namespaces: o.namespaces, Log: os.Stderr,
		MoveClock: slices.ContainsFunc(o.faults, func(b breakage) bool { return b.clock }),
	})
	defer func() { err = errors.Join(err, w.Stop(o.keepLogs)) }()
	if err != nil {
		return nil, err
	}
	r = &report{options: o}
	process.Sleep(ctx, o.hold)
	if r.before, err = w.Usage(ctx); err != nil {
		return nil, err
	}
	_, _ = w.Admissions() // those of the beginning
	for _, b := range o.faults {
		if b.root && w.Disk == nil {
			r.rows = append(r.rows, row{breakage: b, said: "not done: it takes root"})
			continue
		}
		row, err := suffer(ctx, w, b, o.hold)
		if err != nil {
			row.violations = append(row.violations, err.Error())
		}
		r.rows = append(r.rows, row)
		if ctx.Err() != nil {
			return r, fmt.Errorf("%s: %w", b.name, ctx.Err())
		}
	}
	process.Sleep(ctx, 2*o.hold)
	if r.after, err = w.Usage(ctx); err != nil {
		return r, err
	}
	seen := w.Observer.Seen()
	r.seen = world.Summary(seen)
	r.violations = append(invariant.Keys(seen), invariant.Generations(seen, w.Interim)...)
	r.violations = append(r.violations, invariant.Leaks(r.before, r.after)...)
	return r, nil
}

// suffer makes one fault and returns what was seen.
func suffer(ctx context.Context, w *world.World, b breakage, hold time.Duration) (row, error) {
	process.Step("%s: %s", b.name, b.what)
	r := row{breakage: b}
	endsBefore, _ := w.Ends()
	work := w.StartWork(ctx, b.name, hold)
	defer work.End()
	start := time.Now()
	said, err := b.do(ctx, w, work, hold)
	r.said, r.held = said, time.Since(start)
	if err != nil {
		return r, err
	}
	work.Wait()
	if r.settled, err = w.Settle(ctx, work); err != nil {
		r.violations = append(r.violations, err.Error())
	}
	if b.rewinds { // what was signed before its controllers were restarted is gone by now
		w.Observer.Rewound()
	}
	if r.created, r.renewed, r.slowest = work.End(); r.created != world.Asks || r.renewed != world.Asks {
		r.violations = append(r.violations, fmt.Sprintf("%d Services were created and %d renewed, not %d each", r.created, r.renewed, world.Asks))
	}
	var last string
	if r.ends, last = w.Ends(); r.ends > endsBefore {
		process.Step("%s: a process ended: %s", b.name, last)
	}
	r.ends -= endsBefore
	foreign, err := w.Foreign(ctx)
	if err != nil {
		return r, err
	}
	var why string
	if r.admissions, why = w.Admissions(); why != "" {
		process.Step("%s: the last refusal: %s", b.name, why)
	}
	r.violations = append(append(r.violations, foreign...), r.admissions.Check(b.refuses)...)
	process.Step("%s: %s; settled %s after; %v", b.name, r.said, short(r.settled), r.violations)
	return r, nil
}
