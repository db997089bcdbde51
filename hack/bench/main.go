// Command bench measures the signer against the budgets of docs/benchmarks.md on
// a real kube-apiserver and etcd, all in one run, so that what a figure is
// compared with was measured on the same machine in the same minute. With --reviews
// it measures the webhook: how long the reviews of pods take.
// How that grows, and what the rotator needs, is measured by hack/scale.
package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
)

// options are what may be asked of a run.
type options struct {
	n       int // Services issued for from cold
	single  int // Services created one by one
	foreign int // foreign Secrets of 1 MB
	workers int
	rounds  int
	// requests is how many PodCertificateRequests and CertificateSigningRequests are
	// answered.
	requests int
	// profile is where the profiles of the signer go; empty: it is not profiled.
	profile string
	// reviews is how many annotated Services there are while pods are created; 0: the signer
	// is measured.
	reviews int
}

func main() {
	var o options
	pflag.IntVarP(&o.n, "n", "n", 2000, "certificates to issue from cold")
	pflag.IntVar(&o.rounds, "rounds", 3, "how often the floors and the signer are measured, in turns; 0: certificates are issued once, and only the answers to requests are measured")
	pflag.IntVar(&o.single, "single", 300, "Services to create one by one")
	pflag.IntVar(&o.foreign, "foreign", 300, "Secrets of 1 MB that are not the signer's")
	pflag.IntVar(&o.workers, "workers", 8, "the signer's --workers, and the concurrency of the bare client")
	pflag.IntVar(&o.requests, "requests", 1000, "PodCertificateRequests and CertificateSigningRequests to answer, each; 0: none")
	pflag.StringVar(&o.profile, "profile", "", "directory for profiles of the signer, CPU and live heap; it measures the rounds alone then")
	pflag.IntVar(&o.reviews, "reviews", 0, "annotated Services beside which the webhook is to review pods, instead of the signer's work")
	pflag.Parse()
	process.Main("bench", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "servingcert-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	what := measure.TheSigner
	if o.reviews > 0 {
		what = "webhook"
	}
	process.Step("building the %s", what)
	binary, err := o.build(ctx, dir, what)
	if err != nil {
		return err
	}
	process.Step("starting etcd and kube-apiserver")
	cluster, err := measure.Start(ctx, dir, controlplane.Options{
		Features:           []controlplane.Feature{controlplane.PodCertificates},
		ExtraAPIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
	})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := cluster.Plane.Stop(); err == nil {
			err = stopErr
		}
	}()
	b := &bench{options: o, Cluster: cluster, binary: binary}
	if o.reviews > 0 {
		return b.runReviews(ctx)
	}
	return b.run(ctx)
}
