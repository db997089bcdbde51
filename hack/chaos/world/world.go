package world

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/chaos/fault"
	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	system = api.DefaultNamespace
	domain = "cluster.local"
	// replicas is how many of each of the three there are.
	replicas = 2
	// diskSize is that of the disk under etcd: two segments of its log, and some data.
	diskSize = 384 << 20
	port     = 8443
	// attempt is how long one request of those that are repeated may take.
	attempt = 10 * time.Second
	// patience is how long anything may take that is waited for.
	patience = 90 * time.Second
	poll     = 100 * time.Millisecond
	// pause is between the end of a process and its next start. A kubelet's grows with
	// each end, to five minutes.
	pause = time.Second
)

// kinds are the processes, in the order in which they are started.
var kinds = []string{"signer", "trust", "rotator", "webhook"}

// flags are what differs from install.yaml, so that a CA is replaced within seconds.
var flags = map[string][]string{
	"signer":  {"--ca-soak=5s", "--ca-reissue-window=5s", "--metrics-insecure"},
	"trust":   {"--metrics-insecure"},
	"rotator": {"--pod-cidrs=127.0.0.0/8", "--metrics-insecure"},
	"webhook": {"--metrics-insecure"},
}

// Options says how large the world is.
type Options struct {
	Services, Namespaces int
	MoveClock            bool      // signer and rotator have a clock that can be moved
	Log                  io.Writer // progress
}

// World is a control plane with an installation and what works in it.
type World struct {
	*installed.Cluster
	Etcd      *fault.TCP       // between kube-apiserver and etcd
	APIServer *fault.APIServer // between the processes and kube-apiserver
	Clock     *fault.Clock     // of signers and rotators
	Disk      *fault.Disk      // under etcd; nil if this is not root
	Observer  *Observer
	Interim   map[string]bool // key ids of interim CAs, see NoteInterim

	options Options
	stream  *stream
	foreign map[string]invariant.Version
	places  []place
	renewed int // of places
}

// New returns a world in which every Service has its Secret. If there is an error, the world
// still has to be stopped.
func New(ctx context.Context, o Options) (*World, error) {
	w := &World{options: o, Interim: map[string]bool{}}
	var err error
	w.Cluster, err = installed.New(installed.Options{
		Name: "chaos", Log: o.Log, Plane: controlplane.Options{EtcdVia: w.etcdVia}, Flags: flags, Pause: pause,
		Env: func() []string { return []string{w.Clock.Variable()} },
		Via: func(cfg *rest.Config) { cfg.Host, cfg.CAData = w.APIServer.Host(), w.APIServer.CA },
	})
	if err != nil {
		return w, err
	}
	for _, do := range []func(context.Context) error{w.build, w.startPlane, w.install, w.startProcesses, w.populate} {
		if err := do(ctx); err != nil {
			return w, err
		}
	}
	w.Observer = observe(w.Clientset)
	w.AtEnd(func() error { w.Observer.close(); return nil })
	w.stream = newStream(w.Clientset, w.places)
	w.AtEnd(func() error { w.stream.close(); return nil })
	return w, nil
}

func (w *World) build(ctx context.Context) error {
	w.Say("building signer, rotator and webhook")
	var err error
	if w.Clock, err = fault.NewClock(w.Path("clock")); err != nil {
		return err
	}
	if !w.options.MoveClock {
		return w.Build(ctx, "cmd/webhook", "cmd/signer", "cmd/rotator")
	}
	const cmd = "github.com/servingcert/servingcert/cmd/"
	if err := fault.BuildWithClock(ctx, w.Path("bin"), cmd+"signer", cmd+"rotator"); err != nil {
		return err
	}
	return w.Build(ctx, "cmd/webhook")
}

func (w *World) startPlane(ctx context.Context) error {
	w.Say("starting the control plane")
	etcdDir := ""
	if os.Geteuid() == 0 {
		var err error
		if w.Disk, err = fault.MountDisk(w.Path("disk"), diskSize); err != nil {
			return err
		}
		w.AtEnd(w.Disk.Unmount)
		etcdDir = w.Disk.Path("etcd")
	}
	if err := w.StartPlane(ctx, func(o *controlplane.Options) { o.EtcdDir = etcdDir }); err != nil {
		return err
	}
	var err error
	if w.APIServer, err = fault.NewAPIServer(w.Plane.Host(), w.Plane.AdminConfig().CAData); err != nil {
		return err
	}
	w.AtEnd(w.APIServer.Close)
	return nil
}

func (w *World) etcdVia(address string) (string, error) {
	var err error
	if w.Etcd, err = fault.NewTCP(address); err != nil {
		return "", err
	}
	w.AtEnd(w.Etcd.Close)
	return w.Etcd.Address(), nil
}

func (w *World) install(ctx context.Context) error {
	w.Say("applying deploy/install.yaml")
	return w.Install(ctx)
}

func (w *World) startProcesses(ctx context.Context) error {
	for _, kind := range kinds[:3] {
		for range replicas {
			if _, err := w.Run(ctx, kind); err != nil {
				return err
			}
		}
	}
	if err := w.KeepVolume(ctx); err != nil {
		return err
	}
	var webhooks []backend
	for range replicas {
		address, err := process.FreeAddress()
		if err != nil {
			return err
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		p, err := w.Run(ctx, "webhook", "--bind-address="+host, "--port="+port)
		if err != nil {
			return err
		}
		webhooks = append(webhooks, backend{address, p.Ready})
	}
	if err := installed.Until(ctx, "the processes are ready", w.Ready); err != nil {
		return err
	}
	_, address, err := w.WebhookAddress(ctx)
	if err != nil {
		return err
	}
	b, err := newBalancer(ctx, address, webhooks)
	if err != nil {
		return err
	}
	w.AtEnd(func() error { b.close(); return nil })
	return w.AwaitCABundle(ctx)
}
