// Command controlplane runs a Kubernetes control plane on loopback for experiments until it is
// interrupted: make controlplane. With --fetch-only it only builds the binaries, which make does
// before the tests.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
)

func main() {
	fetchOnly := pflag.Bool("fetch-only", false, "build the binaries and exit")
	dir := pflag.String("dir", "", "empty or new directory for data, keys and logs (default: a temporary one)")
	pflag.Parse()
	process.Main("controlplane", func(ctx context.Context) error { return run(ctx, os.Stdout, *fetchOnly, *dir) })
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
	fmt.Fprintf(out, "running; logs are in %s\n\n  export KUBECONFIG=%s\n  alias kubectl=%s\n\npress Ctrl-C to stop\n",
		cp.LogDir(), kubeconfig, binaries[controlplane.Kubectl])
	<-ctx.Done()
	return cp.Stop()
}
