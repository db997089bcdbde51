// Command hostile shows what one tenant of a cluster can do to another: make hostile.
//
// It runs etcd, kube-apiserver and kube-controller-manager on loopback, with API
// priority and fairness as in a cluster, and signer, rotator and webhook beside them,
// as processes with the ServiceAccounts, the RBAC and the admission policies of
// deploy/install.yaml. A tenant works: its Services are created, renewed, injected into
// pods and probed. It does so twice for the same time, first alone, and then while
// another tenant runs all attacks at once. Each tenant is a ServiceAccount that has
// ClusterRole admin in its own namespace.
//
// There is no node. So each tenant may also write pods/status in its namespace, to say
// what a kubelet would: that a pod is ready, and at which address of loopback.
//
// The exit code is 1 if a process ended or did not answer its liveness probe, if one
// needed more memory than its limit in install.yaml, or if something failed for the
// first tenant or was not finished in time. How much longer its work took is printed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are what may be asked of a run.
type options struct {
	duration time.Duration
	attacks  []attack
	keepLogs string // directory, or empty
}

func main() { os.Exit(run()) }

func run() int {
	klog.SetLogger(logr.Discard()) // what the clients have to say is in the errors that they return
	ctrl.SetLogger(logr.Discard())
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	failures, err := play(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 1
	}
	for _, f := range failures {
		fmt.Println("FAILED:", f)
	}
	if len(failures) > 0 {
		return 1
	}
	return 0
}

func parse(args []string) (options, error) {
	var o options
	var names string
	fs := pflag.NewFlagSet("hostile", pflag.ContinueOnError)
	fs.DurationVar(&o.duration, "duration", 2*time.Minute, "how long the first tenant works alone, and then under attack; at least 10s")
	fs.StringVar(&names, "attacks", "", "names of attacks, comma-separated (default: all)")
	fs.StringVar(&o.keepLogs, "logs", "", "directory that the logs of the three processes are copied to")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.duration < 10*time.Second {
		return o, fmt.Errorf("--duration %s: must be at least 10s", o.duration)
	}
	var err error
	o.attacks, err = choose(names)
	return o, err
}

// choose returns the attacks of those names, in the order of the list; all if there is
// no name.
func choose(names string) ([]attack, error) {
	all := attacks()
	if names == "" {
		return all, nil
	}
	asked := strings.Split(names, ",")
	var known []string
	for _, a := range all {
		known = append(known, a.name)
	}
	for _, name := range asked {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--attacks: %q: must be of %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(a attack) bool { return !slices.Contains(asked, a.name) }), nil
}

// play runs everything and prints the tables.
func play(ctx context.Context, o options) (failures []string, err error) {
	w, err := newWorld(ctx)
	if w != nil {
		defer func() {
			if stopErr := w.Stop(o.keepLogs); err == nil {
				err = stopErr
			}
		}()
	}
	if err != nil {
		return nil, err
	}
	step("the first tenant works alone, %s", o.duration)
	quiet, err := w.round(ctx, "shop-quiet", o.duration, nil)
	if err != nil {
		return nil, err
	}
	step("it works while %d attacks run, %s", len(o.attacks), o.duration)
	hostile, err := w.round(ctx, "shop", o.duration, o.attacks)
	if err != nil {
		return nil, err
	}
	r := report{duration: o.duration, quiet: quiet, hostile: hostile}
	r.print(os.Stdout)
	return r.failures(), nil
}

func step(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...))
}
