// Command bench measures the signer against the budgets of docs/benchmarks.md on
// a real kube-apiserver and etcd, all in one run, so that what a figure is
// compared with was measured on the same machine in the same minute. With
// --consumers it measures the rotator instead: what it costs to see what pods serve.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
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
	// consumers is how many pods serve, in Services of 10; 0: the signer is measured.
	consumers int
	// profile is where the profiles of the signer go; empty: it is not profiled.
	profile string
}

func main() {
	var o options
	pflag.IntVarP(&o.n, "n", "n", 2000, "certificates to issue from cold")
	pflag.IntVar(&o.rounds, "rounds", 3, "how often the floors and the signer are measured, in turns")
	pflag.IntVar(&o.single, "single", 300, "Services to create one by one")
	pflag.IntVar(&o.foreign, "foreign", 300, "Secrets of 1 MB that are not the signer's")
	pflag.IntVar(&o.workers, "workers", 8, "the signer's --workers, and the concurrency of the bare client")
	pflag.IntVar(&o.requests, "requests", 1000, "PodCertificateRequests and CertificateSigningRequests to answer, each; 0: none")
	pflag.IntVar(&o.consumers, "consumers", 0, "pods that the rotator is to look at, instead of the signer's work")
	pflag.StringVar(&o.profile, "profile", "", "directory for profiles of the signer, CPU and live heap; it measures the rounds alone then")
	serve := pflag.String("serve", "", "be those pods: a file with what to serve (for the bench itself)")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *serve != "" {
		err = beServers(ctx, *serve)
	} else {
		err = run(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "servingcert-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	what := "signer"
	if o.consumers > 0 {
		what = "rotator"
	}
	binary := filepath.Join(dir, what)
	step("building the %s", what)
	if err := o.build(ctx, what, binary, dir); err != nil {
		return err
	}
	step("starting etcd and kube-apiserver")
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Dir:                filepath.Join(dir, "controlplane"),
		Features:           []controlplane.Feature{controlplane.PodCertificates},
		ExtraAPIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
	})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := cp.Stop(); err == nil {
			err = stopErr
		}
	}()
	cfg := rest.CopyConfig(cp.AdminConfig())
	cfg.QPS, cfg.ContentType = -1, "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	b := &bench{options: o, plane: cp, client: client, metadata: meta, binary: binary, dir: dir, kubeconfig: cp.KubeconfigFile()}
	if o.consumers > 0 {
		return b.runConsumers(ctx)
	}
	return b.run(ctx)
}
