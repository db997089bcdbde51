// Command bench measures the signer against the budgets of docs/benchmarks.md on
// a real kube-apiserver and etcd, all in one run, so that what a figure is
// compared with was measured on the same machine in the same minute. With
// --consumers it measures the rotator instead: what it costs to see what pods serve.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// options are what may be asked of a run.
type options struct {
	n       int // Services issued for from cold
	single  int // Services created one by one
	foreign int // foreign Secrets of 1 MB
	workers int
	// requests is how many PodCertificateRequests and CertificateSigningRequests are
	// answered.
	requests int
	// consumers is how many pods serve, in Services of 10; 0: the signer is measured.
	consumers int
}

func main() {
	var o options
	pflag.IntVarP(&o.n, "n", "n", 2000, "certificates to issue from cold")
	pflag.IntVar(&o.single, "single", 300, "Services to create one by one")
	pflag.IntVar(&o.foreign, "foreign", 300, "Secrets of 1 MB that are not the signer's")
	pflag.IntVar(&o.workers, "workers", 8, "the signer's --workers, and the concurrency of the bare client")
	pflag.IntVar(&o.requests, "requests", 1000, "PodCertificateRequests and CertificateSigningRequests to answer, each; 0: none")
	pflag.IntVar(&o.consumers, "consumers", 0, "pods that the rotator is to look at, instead of the signer's work")
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
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/servingcert/servingcert/cmd/"+what).CombinedOutput(); err != nil {
		return fmt.Errorf("build the %s: %w\n%s", what, err, out)
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
	b := &bench{options: o, plane: cp, client: client, binary: binary, dir: dir, kubeconfig: cp.KubeconfigFile()}
	if o.consumers > 0 {
		return b.runConsumers(ctx)
	}
	return b.run(ctx)
}

// report prints the table; every row holds what was measured and the budget.
func (b *bench) report(r results) {
	cold, floor := r.cold.rate(), (r.floorBefore+r.floorAfter)/2
	fmt.Printf("\nservingcert bench: %s, %d cores, GOMAXPROCS %d, N=%d, %d workers, %s\n\n",
		runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0), b.n, b.workers, time.Now().UTC().Format("2006-01-02"))
	row := func(what, measured, budget string) { fmt.Printf("| %-62s | %-34s | %-22s |\n", what, measured, budget) }
	row("what", "measured", "budget")
	row("---", "---", "---")
	row("bare client: Secret create + Service status patch, per second", fmt.Sprintf("%.0f before, %.0f after", r.floorBefore, r.floorAfter), "(the floor)")
	row(fmt.Sprintf("signer: %d certificates from cold, per second", b.n), fmt.Sprintf("%.0f (%.1f s from process start)", cold, r.cold.took.Seconds()), "")
	row("ratio", fmt.Sprintf("%.2f", cold/floor), "≥ 0.8")
	row("API writes per certificate (POST + PATCH + PUT)", fmt.Sprintf("%.3f", r.cold.writes/float64(b.n)), "2")
	row("API reads per certificate (GET, lists and watches included)", fmt.Sprintf("%.3f", r.cold.reads/float64(b.n)), "0")
	row("events written", fmt.Sprintf("%d", r.cold.events), "0")
	row("CPU per certificate in the signer", fmt.Sprintf("%.2f ms", r.cold.cpu.Seconds()*1000/float64(b.n)), "≤ 1.1 ms")
	row(fmt.Sprintf("peak RSS issuing %d", b.n), mib(r.cold.peak), "≤ 150 MiB (at 10 000)")
	row(fmt.Sprintf("peak RSS of a restart with %d certificates", b.n), mib(r.warm.peak), "")
	row(fmt.Sprintf("  the same with %d foreign Secrets of 1 MB", b.foreign), fmt.Sprintf("%s (%+.1f MiB)", mib(r.warmForeign.peak), (r.warmForeign.peak-r.warm.peak)/(1<<20)), "≤ +5 MiB")
	row("API writes of a restart with everything good", fmt.Sprintf("%.0f (the Lease, the status)", r.warm.writes), "")
	row("Service created → Secret there, one at a time, p50 / p99", fmt.Sprintf("%.1f / %.1f ms", ms(r.p50), ms(r.p99)), "10 / 50 ms")
	if b.requests > 0 {
		b.reportRequests(row, r.answered)
	}
}

func mib(bytes float64) string     { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }
func ms(d time.Duration) float64   { return float64(d) / float64(time.Millisecond) }
func step(format string, a ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", a...) }
