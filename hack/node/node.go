package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
)

// Options identifies a node. The zero value is the default node.
type Options struct {
	// Dir is the directory of the node's state and logs; at most 64 characters. Default: DefaultDir.
	Dir string

	// Subnet is a private IPv4 network with prefix length 16 for all addresses of the node, which
	// this machine does not use otherwise. Default: DefaultSubnet.
	Subnet string

	// Log receives progress. Default: os.Stderr.
	Log io.Writer
}

func (o Options) log() io.Writer {
	if o.Log == nil {
		return os.Stderr
	}
	return o.Log
}

// Node is a running node. Its methods are safe for concurrent use, also by several processes.
type Node struct {
	layout
	binaries map[string]string // by component
	log      io.Writer
}

// stateFile, in a node's directory, contains what other processes cannot compute.
const stateFile = "node.json"

type state struct {
	Subnet   string            `json:"subnet"`
	Binaries map[string]string `json:"binaries"`
	Up       bool              `json:"up"` // Up has completed
}

// Attach returns the node that runs in a directory, "" for the default. It returns an error if the
// node, or one of its components, does not run.
func Attach(dir string) (*Node, error) {
	l, err := newLayout(dir, "")
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(l.path(stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", errNotRunning, l.Dir)
	}
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(content, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", l.path(stateFile), err)
	}
	if l, err = newLayout(dir, s.Subnet); err != nil {
		return nil, err
	}
	if !s.Up {
		return nil, fmt.Errorf("the node in %s is not ready yet, or its start was interrupted", l.Dir)
	}
	pids, err := running(l.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{holder}, order...) {
		if pids[name] == 0 {
			return nil, fmt.Errorf("the node in %s is incomplete: %s does not run", l.Dir, name)
		}
	}
	return &Node{layout: l, binaries: s.Binaries, log: os.Stderr}, nil
}

func (n *Node) writeState(up bool) error {
	content, err := json.MarshalIndent(state{Subnet: n.Subnet.String(), Binaries: n.binaries, Up: up}, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(n.path(stateFile), append(content, '\n'))
}

// Kubeconfig returns the path of a kubeconfig of cluster-admin, for this machine and the node.
func (n *Node) Kubeconfig() string { return n.kubeconfig("admin") }

// Config returns a client configuration of cluster-admin without client-side rate limit.
func (n *Node) Config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}

// LogDir returns the directory of the components' logs and, in pods, of those of containers.
func (n *Node) LogDir() string { return n.path("logs") }

// Components returns the names for Kill and Restart.
func Components() []string { return slices.Clone(order) }

// PIDs returns the process IDs of the running components, by name.
func (n *Node) PIDs() (map[string]int, error) {
	pids, err := running(n.Dir)
	delete(pids, holder)
	return pids, err
}

// Kill kills a component, as a crash does, and returns when it has exited. Its data is kept, and pods
// keep running. Kill does nothing if the component does not run.
func (n *Node) Kill(ctx context.Context, name string) error {
	if err := known(name); err != nil {
		return err
	}
	killed := 0
	return process.Poll(ctx, endTimeout, pollInterval, func(context.Context) error {
		pids, err := running(n.Dir)
		if err != nil {
			return err
		}
		if pid := pids[name]; pid != 0 {
			killed = pid
			return errors.Join(kill(pid, n.Dir, name), fmt.Errorf("%s, process %d, is still running", name, pid))
		}
		if killed != 0 && !ended(killed) {
			return fmt.Errorf("%s, process %d, is still exiting", name, killed)
		}
		return nil
	})
}

// Restart kills a component if it runs, starts it with the same data and address, and returns when it
// is ready.
func (n *Node) Restart(ctx context.Context, name string) error {
	if err := n.Kill(ctx, name); err != nil {
		return err
	}
	return n.start(ctx, name)
}

// Replace is Restart with another binary, which later restarts use too. It must not be called
// concurrently with other methods.
func (n *Node) Replace(ctx context.Context, name, binary string) error {
	if _, ok := n.binaries[name]; !ok {
		return fmt.Errorf("component %q has no binary that can be replaced", name)
	}
	if err := n.Kill(ctx, name); err != nil {
		return err
	}
	n.binaries[name] = binary
	return errors.Join(n.writeState(true), n.start(ctx, name))
}

func known(name string) error {
	if !slices.Contains(order, name) {
		return fmt.Errorf("component %q: must be one of %s", name, strings.Join(order, ", "))
	}
	return nil
}

// Import imports the images in files, in the format of docker save, into the node.
func (n *Node) Import(ctx context.Context, files ...string) error {
	for _, file := range files {
		// The client reads the file, so the node need not have access to it.
		if err := run(exec.CommandContext(ctx, "ctr", "--address", n.containerdSocket(), "--namespace", "k8s.io",
			"images", "import", file)); err != nil {
			return err
		}
	}
	return nil
}

// Command returns a command that runs in the node's namespaces, such as iptables-save.
func (n *Node) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	pids, err := running(n.Dir)
	if err != nil {
		return nil, err
	}
	if pids[holder] == 0 {
		return nil, fmt.Errorf("%w in %s", errNotRunning, n.Dir)
	}
	return n.enter(ctx, pids[holder], args...), nil
}

// DNSAddress returns the HOST:PORT of the cluster's DNS.
func (n *Node) DNSAddress() string { return n.DNSIP.String() + ":53" }

var nodeBinaries = []string{
	controlplane.Etcd, controlplane.KubeAPIServer, controlplane.KubeControllerManager, controlplane.KubeScheduler,
	controlplane.KubeProxy, controlplane.Kubelet, controlplane.CoreDNS,
}

// Fetch builds the binaries that Up needs.
func Fetch(ctx context.Context, log io.Writer) error {
	_, err := controlplane.Binaries(ctx, log, append(slices.Clone(nodeBinaries), controlplane.Kubectl)...)
	return err
}
