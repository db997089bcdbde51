package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	o := installed.Options{Name: s.name, Log: os.Stderr, Flags: s.flags, Pause: s.pause, Replicas: s.replicas}
	o.Plane.ExtraAPIServerArgs = s.planeArgs
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
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: optedOut}}
	return w, errors.Join(w.Admin.Create(ctx, namespace), w.addForeign(ctx, optedOut))
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
	if w.proxies && ownMounts {
		var err error
		if w.disk, err = fault.MountDisk(w.Path("disk"), 384<<20); err != nil {
			return err
		}
		w.AtEnd(w.disk.Unmount) // it holds two segments of etcd's log, and some data
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

// setting is what scenes are played in.
type setting struct {
	name     string
	replicas int           // of each process; of several webhooks one is picked for each connection
	pause    time.Duration // from the end of a process to its next start. A kubelet's grows with each end, to five minutes
	// flags follow those of install.yaml, so that within seconds a CA is replaced and something is
	// stale. Pods are on loopback here.
	flags     map[string][]string
	planeArgs []string // of kube-apiserver
	proxies   bool     // faults can be made between processes, kube-apiserver and etcd, and under etcd
	moveClock bool     // signer and rotator have a clock that can be moved
	services  int      // of all tenants, without pods
	serving   int      // Services of the first tenant whose pods serve. One more is restarted when it is renewed
	lanes     []lane   // what the tenants do meanwhile
	hold      time.Duration
}

const (
	faultsName, attacksName = "faults", "attacks"

	asked        = 10 // Services that are created, and that are renewed, in each fault
	mostRenewals = 15 // about, of a Secret, however long attacks go on: the signer limits that
)

// quiet is the scene before all faults.
func quiet() *scene {
	s := &scene{name: "alone", what: "nothing is broken", do: kill(func(*world) []*installed.Process { return nil })}
	for n := range 10 {
		s.tenants = append(s.tenants, fmt.Sprint("tenant-", n))
	}
	return s
}

func faultSetting(short bool) setting {
	s := setting{
		name: faultsName, replicas: 2, pause: time.Second, proxies: true, services: 500, hold: 8 * time.Second,
		flags: map[string][]string{
			"signer":  {"--ca-soak=5s", "--ca-reissue-window=5s"},
			"rotator": {"--pod-cidrs=127.0.0.0/8"},
		},
	}
	if short {
		s.services, s.hold = 150, 3*time.Second
	}
	s.lanes = []lane{
		{"annotated Service until Ready", asked, 0, s.hold, (*work).createService},
		{"renewal requested until new certificate", asked, 0, s.hold, (*work).renewNext},
		{"pod created through the webhook", 3, 100 * time.Millisecond, 0, (*work).createPod},
	}
	return s
}

// attackSetting is that of attacks for a time.
func attackSetting(d time.Duration) setting {
	s := setting{
		name: attacksName, replicas: 1, pause: time.Millisecond, services: 4, serving: 6, hold: d,
		flags: map[string][]string{
			"signer":  {"--ca-soak=10s", "--ca-reissue-window=20s"},
			"rotator": {"--propagation-time=20s", "--pod-cidrs=127.0.0.0/8"},
		},
		planeArgs: []string{
			"--enable-priority-and-fairness=true", "--max-requests-inflight=400", "--max-mutating-requests-inflight=200", // the defaults
			"--etcd-compaction-interval=30s", // the attacks write more than etcd keeps
		},
	}
	seldom := max(8*time.Second, d/mostRenewals)
	s.lanes = []lane{
		{"ConfigMap created (the API server alone)", 1, 250 * time.Millisecond, 0, (*work).createConfigMap},
		{"annotated Service until Ready", 1, 500 * time.Millisecond, 0, (*work).createService},
		{"renewal requested until new certificate", 1, max(3*time.Second, d/time.Duration(mostRenewals*s.services)), 0, (*work).renewNext},
		{"pod created through the webhook", 1, 250 * time.Millisecond, 0, (*work).createPod},
		{"new certificate until seen served", s.serving, seldom, 0, (*work).renewAndServe},
		{"new certificate until restarted and served", 1, seldom, d / 4, (*work).renewAndRestart}, // attacks on restarts need a while to begin with
	}
	return s
}
