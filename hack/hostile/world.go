package main

import (
	"context"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
)

const (
	// patience is how long the first tenant waits for one thing, and for what goes on
	// when its time is over.
	patience = 90 * time.Second
	// poll is how often to look at what is not measured.
	poll = 50 * time.Millisecond
	// A kubelet's liveness probe as install.yaml has it.
	livenessPeriod   = 10 * time.Second
	livenessTimeout  = 5 * time.Second
	livenessFailures = 3
)

// flags are what differs from install.yaml, so that in two minutes something is stale
// and a CA is replaced. Pods are on loopback here.
var flags = map[string][]string{
	"signer":  {"--ca-soak=10s", "--ca-reissue-window=20s"},
	"rotator": {"--propagation-time=20s", "--pod-cidrs=127.0.0.0/8"},
}

// world is a control plane with an installation.
type world struct {
	*installed.Cluster
	webhook string // host:port of its Service
}

// newWorld returns a world that works. If there is an error, the world still has to be stopped.
func newWorld(ctx context.Context) (*world, error) {
	c, err := installed.New(installed.Options{
		Name: "hostile", Log: os.Stderr, Flags: flags, Pause: time.Millisecond,
		Plane: controlplane.Options{ExtraAPIServerArgs: []string{
			"--enable-priority-and-fairness=true", "--max-requests-inflight=400", "--max-mutating-requests-inflight=200", // the defaults
			"--etcd-compaction-interval=30s", // the attacks write more than etcd keeps
		}},
	})
	w := &world{Cluster: c}
	if err != nil {
		return w, err
	}
	w.Say("building signer, rotator and webhook")
	if err := w.Build(ctx, "cmd/signer", "cmd/rotator", "cmd/webhook"); err != nil {
		return w, err
	}
	w.Say("starting the control plane")
	if err := w.StartPlane(ctx); err != nil {
		return w, err
	}
	w.Say("applying deploy/install.yaml")
	if err := w.Install(ctx); err != nil {
		return w, err
	}
	if _, w.webhook, err = w.WebhookAddress(ctx); err != nil {
		return w, err
	}
	w.Say("starting the processes")
	background, cancel := context.WithCancel(context.Background())
	w.AtEnd(func() error { cancel(); return nil })
	// Any certificate will do for the metrics, for a start none.
	return w, w.RunAll(ctx, func(p *installed.Process) { go w.probe(background, p) }, "--metrics-cert-dir="+w.CertDir())
}

// probe ends the process if it does not answer, as a liveness probe does. It is started again.
func (w *world) probe(ctx context.Context, p *installed.Process) {
	client := &http.Client{Timeout: livenessTimeout}
	for failed := 0; process.Sleep(ctx, livenessPeriod); {
		if controlplane.GetOK(ctx, client, "http://"+p.Health()+"/healthz") == nil {
			failed = 0
		} else if failed++; failed == livenessFailures {
			failed = 0
			w.Say("the liveness probe of the %s failed %d times", p.Name(), livenessFailures)
			_ = syscall.Kill(p.PID(), syscall.SIGKILL) // it may have just ended
		}
	}
}
