// Command bench measures servingcert against the budgets of docs/benchmarks.md. With etcd and
// kube-apiserver, it compares the signer, installed from deploy/install.yaml, with a client that makes
// the same certificates and writes. With --proxy, it compares the proxy with nginx, haproxy and
// ghostunnel, if they are installed. The webhook is compared by BenchmarkRatio of pkg/mutate/admission.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
)

// options are the flags of a run.
type options struct {
	n        int // certificates issued from cold
	rounds   int
	requests int // of each kind
	parts    string
}

const (
	workers = 8   // the signer's --workers, and the concurrency of the bare client
	single  = 300 // Services that are created one by one
	foreign = 300 // Secrets of 1 MB that are not the signer's
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "origin" { // the server behind the proxies, in its own process
		log.Fatal(origin(os.Args[2]))
	}
	var o options
	var p proxies
	proxy := pflag.Bool("proxy", false, "measure the proxy instead")
	pflag.IntVarP(&o.n, "n", "n", 2000, "certificates to issue from cold")
	pflag.IntVar(&o.rounds, "rounds", 0, "number of rounds (default: 3, with --proxy 5)")
	pflag.IntVar(&o.requests, "requests", 1000, "number of PodCertificateRequests, and of CertificateSigningRequests, to answer")
	pflag.StringVar(&o.parts, "parts", "", "what to measure: signer, requests, comma-separated (default: all)")
	pflag.Parse()
	process.Main("bench", func(ctx context.Context) error {
		if *proxy {
			return p.run(ctx, cmp.Or(o.rounds, 5))
		}
		o.rounds = cmp.Or(o.rounds, 3)
		return run(ctx, o)
	})
}

// part is a part of the benchmark. Each runs in a cluster with N certificates.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

var parts = []part{
	{"signer", (*bench).measureSigner},
	{"requests", (*bench).measureRequests},
}

// run measures the selected parts. If one fails, it prints the results so far.
func run(ctx context.Context, o options) (err error) {
	chosen, err := process.Choose("parts", o.parts, parts, func(p part) string { return p.name })
	if err != nil {
		return err
	}
	b, err := start(ctx, o)
	defer func() { err = errors.Join(err, b.Stop()) }()
	if err != nil {
		return err
	}
	defer func() {
		fmt.Printf("\nservingcert bench: %s, %d cores, N=%d, %d workers, %d rounds (median, least – most), %s\n\n",
			runtime.Version(), runtime.NumCPU(), b.n, workers, b.rounds, time.Now().UTC().Format("2006-01-02"))
		installed.Table(os.Stdout, b.table)
	}()
	for _, p := range chosen {
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// start starts a control plane and installs servingcert, but starts none of its processes. The caller
// must stop what it returns, even with an error.
func start(ctx context.Context, o options) (b *bench, err error) {
	b = &bench{options: o, table: [][]string{{"what", "measured", "budget"}}}
	b.Cluster, err = installed.New(installed.Options{
		Name: "bench", Log: os.Stderr, Once: true,
		Env: func() []string { return append([]string{"GODEBUG=gctrace=1"}, b.env...) }, // logs the live heap
		Plane: controlplane.Options{
			Features:           []controlplane.Feature{controlplane.PodCertificates},
			ExtraAPIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
		},
	})
	if err != nil {
		return b, err
	}
	b.Say("building the signer")
	if err := b.Build(ctx, "cmd/signer"); err != nil {
		return b, err
	}
	b.Say("starting etcd and kube-apiserver, and applying deploy/install.yaml")
	// kube-controller-manager would collect garbage, which is not measured.
	if err := b.StartPlane(ctx, func(o *controlplane.Options) { o.ControllerManager = false }); err != nil {
		return b, err
	}
	if err := b.Install(ctx); err != nil {
		return b, err
	}
	return b, b.makeNamespaces(ctx)
}
