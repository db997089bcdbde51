package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
)

// The components that the demo itself starts.
const (
	signer  = "signer"
	trust   = "trust"
	rotator = "rotator"
	webhook = "webhook"
	web     = "web" // the container of the shop's pod
)

// demo is what the steps hand on to each other.
type demo struct {
	*installed.Cluster
	out      *output
	cancel   context.CancelCauseFunc
	started  time.Time
	stopping atomic.Bool

	service       *corev1.Service
	pod           *corev1.Pod
	podVolume     kubelet.Mounted
	server        *process.Program // the pod's container
	first, second seen             // what the server showed before and after the renewal
	measured      []measurement
}

// measurement is a line of the summary.
type measurement struct {
	what string
	took time.Duration
}

func (d *demo) measure(what string, took time.Duration) {
	d.measured = append(d.measured, measurement{what, took})
}

func newDemo(w io.Writer, cancel context.CancelCauseFunc) (*demo, error) {
	d := &demo{out: &output{w: w}, cancel: cancel, started: time.Now()}
	var err error
	d.Cluster, err = installed.New(installed.Options{Name: fieldOwner, Log: d.out, Once: true})
	return d, err
}

func (d *demo) logFile(component string) string { return d.Path("logs", component+".log") }

// endedError is why the demo ends when one of its processes does.
type endedError struct {
	component string
	error
}

// watch ends the demo if a process ends before the demo stops it.
func (d *demo) watch(p *process.Program) {
	go func() {
		<-p.Ended()
		if !d.stopping.Load() {
			d.cancel(&endedError{p.Name(), p.Err()})
		}
	}()
}

// stop ends what the demo started, and removes its files.
func (d *demo) stop() error {
	d.stopping.Store(true)
	return d.Stop("")
}

func (d *demo) summary() {
	fmt.Fprintf(d.out.w, "\nDone in %s, with the rights of deploy/install.yaml:\n", short(time.Since(d.started)))
	for _, m := range d.measured {
		fmt.Fprintf(d.out.w, "  %8s  %s\n", short(m.took), m.what)
	}
}

// keep leaves everything running until Ctrl-C and goes on playing kubelet, so that
// a renewal by hand reaches the server too.
func (d *demo) keep(ctx context.Context) error {
	fmt.Fprintf(d.out.w, `
It goes on running until Ctrl-C (logs: %s):

  export KUBECONFIG=%s
  kubectl -n shop get svc,secret,configmap,pod
  kubectl -n shop get configmap servingcert-ca.crt -o jsonpath='{.data.ca\.crt}' > %s
  curl --cacert %[3]s --connect-to web.shop.svc:443:%s https://web.shop.svc/
  kubectl -n shop annotate --overwrite service web servingcert.dev/renew-after=$(date -u +%%FT%%TZ)
`, d.LogDir(), d.Plane.KubeconfigFile(), d.Path("ca.crt"), d.serverAddress())
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errInterrupted) {
				return nil
			}
			return d.failure(ctx, ctx.Err(), step{title: "kept running"})
		case <-ticker.C:
		}
		if _, err := d.podVolume.Project(ctx, d.Admin); err != nil && ctx.Err() == nil {
			d.out.printf("kubelet: %v\n", err)
		}
	}
}
