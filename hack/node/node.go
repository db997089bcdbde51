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
)

// Options says where a node is. The zero value is the default node.
type Options struct {
	// Dir holds all of the node's state and logs; its name may have 64 characters.
	// Default: DefaultDir.
	Dir string

	// Subnet is a private IPv4 network of 16 bits for cable, ClusterIPs and pods, which
	// this machine does not use otherwise. Default: DefaultSubnet.
	Subnet string

	// Log receives what is built and started. Default: os.Stderr.
	Log io.Writer
}

func (o Options) log() io.Writer {
	if o.Log == nil {
		return os.Stderr
	}
	return o.Log
}

// Node is a running node. Its methods may be called from several goroutines, and for
// the same node from several processes.
type Node struct {
	layout
	binaries map[string]string // by component
	log      io.Writer
}

// stateFile is in a node's directory: what a second process cannot compute.
const stateFile = "node.json"

type state struct {
	Subnet   string            `json:"subnet"`
	Binaries map[string]string `json:"binaries"`
	Up       bool              `json:"up"` // Up has come to its end
}

// Attach returns the node that runs in a directory, "" for the default. It is an error
// if none does, or a part of it does not.
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
		return nil, fmt.Errorf("the node in %s is not up yet, or was interrupted when it was raised", l.Dir)
	}
	pids, err := running(l.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{holder}, order...) {
		if pids[name] == 0 {
			return nil, fmt.Errorf("the node in %s is not whole: %s does not run", l.Dir, name)
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

// Kubeconfig is a kubeconfig file of cluster-admin. It is good on this machine, and in
// the node.
func (n *Node) Kubeconfig() string { return n.kubeconfig("admin") }

// Config is a client configuration of cluster-admin without client-side rate limit.
func (n *Node) Config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return cfg, nil
}

// LogDir holds a log of each component, and in pods those of all containers.
func (n *Node) LogDir() string { return n.path("logs") }

// Components are the names that Kill and Restart take.
func Components() []string { return slices.Clone(order) }

// PIDs are the process ids of the components that run, by name.
func (n *Node) PIDs() (map[string]int, error) {
	pids, err := running(n.Dir)
	delete(pids, holder)
	return pids, err
}

// Kill kills a component, as a crash does, and returns when it is gone. Whatever it
// has written is kept; pods go on. A component that does not run is no error.
func (n *Node) Kill(ctx context.Context, name string) error {
	if err := known(name); err != nil {
		return err
	}
	killed := 0
	return poll(ctx, endTimeout, func(context.Context) error {
		pids, err := running(n.Dir)
		if err != nil {
			return err
		}
		if pid := pids[name]; pid != 0 {
			killed = pid
			return errors.Join(kill(pid, n.Dir, name), fmt.Errorf("%s, process %d, is still there", name, pid))
		}
		if killed != 0 && !ended(killed) {
			return fmt.Errorf("%s, process %d, is still ending", name, killed)
		}
		return nil
	})
}

// Restart kills a component if it runs, starts it as it was, with its data and its
// address, and returns when it is ready.
func (n *Node) Restart(ctx context.Context, name string) error {
	if err := n.Kill(ctx, name); err != nil {
		return err
	}
	return n.start(ctx, name)
}

// Replace is Restart with another binary, which the component is until the node ends. No
// other method may run meanwhile.
func (n *Node) Replace(ctx context.Context, name, binary string) error {
	if _, ok := n.binaries[name]; !ok {
		return fmt.Errorf("component %q is not a binary of the node's", name)
	}
	if err := n.Kill(ctx, name); err != nil {
		return err
	}
	n.binaries[name] = binary
	return errors.Join(n.writeState(true), n.start(ctx, name))
}

func known(name string) error {
	if !slices.Contains(order, name) {
		return fmt.Errorf("component %q is unknown: there are %s", name, strings.Join(order, ", "))
	}
	return nil
}

// Import makes the images in files, as docker save writes them, known to the node.
func (n *Node) Import(ctx context.Context, files ...string) error {
	for _, file := range files {
		// The client reads the file, so it need not be one that the node sees.
		if err := run(exec.CommandContext(ctx, "ctr", "--address", n.containerdSocket(), "--namespace", "k8s.io",
			"images", "import", file)); err != nil {
			return err
		}
	}
	return nil
}

// Command is a command that runs in the node's namespaces, such as iptables-save.
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

// DNSAddress is where the cluster's names are answered, as host:port.
func (n *Node) DNSAddress() string { return n.DNSIP.String() + ":53" }

var nodeBinaries = []string{
	controlplane.Etcd, controlplane.KubeAPIServer, controlplane.KubeControllerManager, controlplane.KubeScheduler,
	controlplane.KubeProxy, controlplane.Kubelet, controlplane.CoreDNS,
}

// Fetch sees to it that all binaries that Up needs are there.
func Fetch(ctx context.Context, log io.Writer) error {
	_, err := controlplane.Binaries(ctx, log, append(slices.Clone(nodeBinaries), controlplane.Kubectl)...)
	return err
}
