// Command controlplane runs a Kubernetes control plane on loopback until it is
// interrupted, to try things on: make controlplane. With --fetch-only it only sees
// to it that the binaries are there, which make does before the tests.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/controlplane"
)

func main() {
	fetchOnly := pflag.Bool("fetch-only", false, "fetch the binaries and exit")
	dir := pflag.String("dir", "", "empty or new directory for data, keys and logs; a temporary one without it")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *fetchOnly, *dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, fetchOnly bool, dir string) error {
	if fetchOnly {
		_, err := controlplane.Binaries(ctx, out,
			controlplane.Etcd, controlplane.KubeAPIServer, controlplane.KubeControllerManager)
		return err
	}
	binaries, err := controlplane.Binaries(ctx, out, controlplane.Kubectl)
	if err != nil {
		return err
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{ControllerManager: true, Dir: dir, Log: out})
	if err != nil {
		return err
	}
	kubeconfig := cp.KubeconfigFile()
	fmt.Fprintf(out, "running; logs are in %s\n\n  export KUBECONFIG=%s\n  alias kubectl=%s\n\nCtrl-C stops it\n",
		cp.LogDir(), kubeconfig, binaries[controlplane.Kubectl])
	<-ctx.Done()
	return cp.Stop()
}
