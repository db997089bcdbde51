// Command node starts and stops a Kubernetes node with real pods: make node-up and
// make node-down. It needs root.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/node"
	"github.com/servingcert/servingcert/hack/process"
)

const usage = `node up      run a node with the images in --images; does nothing if it runs already
node down    stop the node and remove everything that it created,
             except for what pods wrote to a hostPath
node exec -- COMMAND [ARGS]
             run a command in the node's namespaces, such as iptables-save
node fetch   build the binaries and exit

`

func main() {
	process.Main("node", func(ctx context.Context) error { return run(ctx, os.Stdout, os.Args[1:]) })
}

type config struct {
	node.Options
	images string
}

func run(ctx context.Context, out io.Writer, args []string) error {
	c := config{Options: node.Options{Log: out}}
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	flags.StringVar(&c.Dir, "dir", envOr("SERVINGCERT_NODE_DIR", node.DefaultDir), "directory of all state and logs (or $SERVINGCERT_NODE_DIR)")
	flags.StringVar(&c.Subnet, "subnet", envOr("SERVINGCERT_NODE_SUBNET", node.DefaultSubnet),
		"private IPv4 network of 16 bits for all addresses (or $SERVINGCERT_NODE_SUBNET)")
	flags.StringVar(&c.images, "images", "bin/images", "directory of image files to import")
	flags.Usage = func() { fmt.Fprint(out, usage, flags.FlagUsages()) }
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	switch command := flags.Arg(0); command {
	case "up":
		return c.up(ctx, out)
	case "down":
		return node.Down(ctx, c.Options)
	case "exec":
		return c.exec(ctx, flags.Args()[1:])
	case "fetch":
		return node.Fetch(ctx, out)
	default:
		flags.Usage()
		return fmt.Errorf("command %q: must be up, down, exec or fetch", command)
	}
}

func (c config) up(ctx context.Context, out io.Writer) error {
	started := time.Now()
	n, err := node.Up(ctx, c.Options)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(c.images, "*.tar"))
	if err != nil {
		return err
	}
	if err := n.Import(ctx, files...); err != nil {
		return err
	}
	kubectl, err := controlplane.Binaries(ctx, out, controlplane.Kubectl)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "node is ready after %.1f s, with %d images from %s; logs are in %s\n\n  export KUBECONFIG=%s\n  alias kubectl=%s\n\n",
		time.Since(started).Seconds(), len(files), c.images, n.LogDir(), n.Kubeconfig(), kubectl[controlplane.Kubectl])
	return nil
}

func (c config) exec(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("exec: a command is required")
	}
	n, err := node.Attach(c.Dir)
	if err != nil {
		return err
	}
	cmd, err := n.Command(ctx, args...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
