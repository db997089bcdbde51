//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// tools are the programs of a user.
type tools struct {
	kubectl string
	plugin  string // kubectl-servingcert
	kubelet string // with a clock that can be moved; "" in the user's cluster
}

// getTools builds the plugin into the directory, and finds or builds kubectl.
func getTools(ctx context.Context, dir string) (tools, error) {
	binaries, err := controlplane.Binaries(ctx, os.Stderr, controlplane.Kubectl)
	if err != nil {
		return tools{}, err
	}
	plugin, err := filepath.Abs(filepath.Join(dir, "kubectl-servingcert"))
	if err != nil {
		return tools{}, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-o", plugin, "./cmd/kubectl-servingcert") // in another module
	if out, err := build.CombinedOutput(); err != nil {
		return tools{}, fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
	}
	return tools{kubectl: binaries[controlplane.Kubectl], plugin: plugin}, nil
}

// run runs a program with the cluster's kubeconfig and returns its output.
func (c *cluster) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}
