package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/scenes/fault"
	"github.com/servingcert/servingcert/hack/scenes/invariant"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	// patience is how long anything may take that is waited for.
	patience = 90 * time.Second
	poll     = 100 * time.Millisecond
	// diskSize is that of the disk under etcd: two segments of its log, and some data.
	diskSize = 384 << 20
)

// world is a control plane with an installation, and what lives on it.
type world struct {
	*installed.Cluster
	setting
	etcd      *installed.Forwarder // between kube-apiserver and etcd
	apiServer *fault.APIServer     // between the processes and kube-apiserver
	clock     *fault.Clock         // of signers and rotators
	disk      *fault.Disk          // under etcd; nil if it could not be mounted

	sightings sightings
	interim   map[string]bool // key ids of interim CAs, see noteInterim
	tenants   []*installed.Tenant
	places    []place            // Services of the tenants, without pods
	renewals  atomic.Int64       // of places, so far
	kubelet   *installed.Kubelet // of pods that serve; nil if there are none
	foreign   map[string]invariant.Version
	noted     chan string // violations for the scene that is judged next
}

// newWorld returns a world that works, without tenants. If there is an error, it still has to be stopped.
func newWorld(ctx context.Context, s setting) (*world, error) {
	w := &world{setting: s, interim: map[string]bool{}, noted: make(chan string, 1000), sightings: sightings{seen: map[invariant.Sighting]bool{}}}
	o := installed.Options{Name: s.name, Log: os.Stderr, Flags: s.flags, Pause: s.pause, Replicas: s.replicas, Plane: controlplane.Options{ExtraAPIServerArgs: s.planeArgs}}
	if s.proxies {
		o.Plane.EtcdVia = w.etcdVia
		o.Via = func(cfg *rest.Config) { cfg.Host, cfg.CAData = w.apiServer.Host(), w.apiServer.CA }
		o.Env = func() []string { return []string{w.clock.Variable()} }
	}
	var err error
	if w.Cluster, err = installed.New(o); err != nil {
		return w, err
	}
	for _, step := range []func(context.Context) error{w.build, w.startPlane, w.Install, w.runAll} {
		if err := step(ctx); err != nil {
			return w, err
		}
	}
	w.sightings.begin()
	w.observe(api.DefaultNamespace)
	return w, w.addForeign(ctx, optedOut, false)
}

func (w *world) build(ctx context.Context) error {
	w.Say("building signer, rotator and webhook")
	var err error
	if w.clock, err = fault.NewClock(w.Path("clock")); err != nil {
		return err
	}
	if !w.moveClock {
		return w.Build(ctx, "cmd/webhook", "cmd/signer", "cmd/rotator")
	}
	const cmd = "github.com/servingcert/servingcert/cmd/"
	return errors.Join(fault.BuildWithClock(ctx, w.Path("bin"), cmd+"signer", cmd+"rotator"), w.Build(ctx, "cmd/webhook"))
}

func (w *world) startPlane(ctx context.Context) error {
	etcdDir := ""
	if w.proxies && ownMounts() {
		var err error
		if w.disk, err = fault.MountDisk(w.Path("disk"), diskSize); err != nil {
			return err
		}
		w.AtEnd(w.disk.Unmount)
		etcdDir = w.disk.Path("etcd")
	}
	err := w.StartPlane(ctx, func(o *controlplane.Options) { o.EtcdDir = etcdDir })
	if err != nil || !w.proxies {
		return err
	}
	if w.apiServer, err = fault.NewAPIServer(w.Plane.AdminConfig()); err == nil {
		w.AtEnd(w.apiServer.Close)
	}
	return err
}

func (w *world) runAll(ctx context.Context) error {
	metrics := "--metrics-cert-dir=" + w.CertDir() // any certificate will do, for a start none
	if w.proxies {
		metrics = "--metrics-insecure"
	}
	return w.RunAll(ctx, func(p *installed.Process) {
		w.Probe(p, func() { w.noted <- p.Name() + " did not answer its liveness probe" })
	}, metrics)
}

func (w *world) etcdVia(address string) (string, error) {
	var err error
	if w.etcd, err = installed.Forward("127.0.0.1:0", func() string { return address }); err != nil {
		return "", err
	}
	w.AtEnd(w.etcd.Close)
	return w.etcd.Address(), nil
}
