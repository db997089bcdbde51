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
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/process"
)

// options are what may be asked of a run.
type options struct {
	duration time.Duration
	attacks  []attack
	keepLogs string // directory, or empty
}

func main() { process.Main("hostile", run) }

func run(ctx context.Context) error {
	o, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	failures, err := play(ctx, o)
	return errors.Join(err, process.Failed(failures))
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
	o.attacks, err = process.Choose("attacks", names, attacks(), func(a attack) string { return a.name })
	return o, err
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
	process.Step("the first tenant works alone, %s", o.duration)
	quiet, err := w.round(ctx, "shop-quiet", o.duration, nil)
	if err != nil {
		return nil, err
	}
	process.Step("it works while %d attacks run, %s", len(o.attacks), o.duration)
	hostile, err := w.round(ctx, "shop", o.duration, o.attacks)
	if err != nil {
		return nil, err
	}
	r := report{duration: o.duration, quiet: quiet, hostile: hostile}
	r.print(os.Stdout)
	return r.failures(), nil
}
