// Command scale measures how servingcert grows: the same work for several sizes on a real
// kube-apiserver and etcd, in tables with the exponent of the growth. It prints what it has
// if it is stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/hack/scale/consumers"
	"github.com/servingcert/servingcert/hack/scale/results"
)

// options are what may be asked of a run.
type options struct {
	sizes   string
	parts   string
	workers int
	results string
}

// scale is a run.
type scale struct {
	options
	dir             string
	signer, rotator string // the binaries
	found           *results.Results
}

// part is a piece of work that is measured for a size, on a control plane of its own.
type part struct {
	name  string
	most  int // the largest size
	plane controlplane.Options
	run   func(*run, context.Context) error
}

func (s *scale) allParts() []part {
	return []part{
		{"signer", 100_000, controlplane.Options{AuditUsers: []string{userA, userB}}, (*run).signerPart},
		{"bundles", 10_000, controlplane.Options{}, (*run).bundlesPart},
		{"requests", 10_000, controlplane.Options{
			Features:           []controlplane.Feature{controlplane.PodCertificates},
			ExtraAPIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
		}, (*run).requestsPart},
		{"rotator", 60_000, controlplane.Options{}, (*run).rotatorPart},
		{"stale", 2000, controlplane.Options{}, (*run).stalePart},
	}
}

func main() {
	var o options
	pflag.StringVar(&o.sizes, "sizes", "500 2000 10000 30000", "how many of each, smallest first; none: print what --results has")
	pflag.StringVar(&o.parts, "parts", "", "what to measure: signer, bundles, requests, rotator, stale (default: all). At most 10000 namespaces and requests, and 2000 stale workloads, are made")
	pflag.IntVar(&o.workers, "workers", 8, "the signer's --workers, and the concurrency of the client that makes objects")
	pflag.StringVar(&o.results, "results", "", "file that keeps the figures: a later run with other sizes adds to them")
	serve := pflag.String("serve", "", "be the pods that the rotator dials: a file with what to serve (for the program itself)")
	pflag.Parse()
	process.Main("scale", func(ctx context.Context) error {
		if *serve != "" {
			return consumers.Serve(ctx, *serve)
		}
		return measureAll(ctx, o)
	})
}

func measureAll(ctx context.Context, o options) error {
	sizes, err := parseSizes(o.sizes)
	if err != nil {
		return err
	}
	s := &scale{options: o}
	chosen, err := process.Choose("parts", o.parts, s.allParts(), func(p part) string { return p.name })
	if err != nil {
		return err
	}
	if s.found, err = results.Open(o.results); err != nil {
		return err
	}
	defer func() {
		fmt.Printf("servingcert scale: %s, %d cores, %s\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"))
		s.found.Print(os.Stdout)
	}()
	if len(sizes) == 0 {
		return nil
	}
	if s.dir, err = os.MkdirTemp("", "servingcert-scale-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	process.Step("building the signer and the rotator")
	if s.signer, err = measure.Build(ctx, s.dir, "signer"); err != nil {
		return err
	}
	if s.rotator, err = measure.Build(ctx, s.dir, "rotator"); err != nil {
		return err
	}
	for _, n := range sizes {
		for _, p := range chosen {
			if n > p.most {
				continue
			}
			if err := s.runPart(ctx, p, n); err != nil {
				return errors.Join(fmt.Errorf("%s with %d: %w", p.name, n, err), s.found.Save())
			}
			if err := s.found.Save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// run is one part with one size.
type run struct {
	*scale
	*measure.Cluster
	n int
}

func (s *scale) runPart(ctx context.Context, p part, n int) (err error) {
	process.Step("%s, %d", p.name, n)
	dir, err := os.MkdirTemp(s.dir, p.name)
	if err != nil {
		return err
	}
	cluster, err := measure.Start(ctx, dir, p.plane)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, cluster.Plane.Stop(), os.RemoveAll(dir))
	}()
	load, err := loadAverage()
	if err != nil {
		return err
	}
	r := &run{s, cluster, n}
	if err := p.run(r, ctx); err != nil {
		return err
	}
	s.found.Set("Load of the machine", "runnable threads in the minute before "+p.name, "", n, load)
	return nil
}

// set notes a figure of the run.
func (r *run) set(part, what, unit string, value float64) {
	r.found.Set(part, what, unit, r.n, value)
}

// loadAverage is the mean number of runnable threads in the last minute, as Linux counts.
func loadAverage() (float64, error) {
	data, err := os.ReadFile(filepath.FromSlash("/proc/loadavg"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), " ")
	return strconv.ParseFloat(first, 64)
}

// parseSizes reads numbers with spaces or commas between them.
func parseSizes(text string) ([]int, error) {
	var sizes []int
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--sizes: %q: must be a positive number", word)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
