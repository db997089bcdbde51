package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
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
	out     *output
	dir     string // everything that the demo writes
	cancel  context.CancelCauseFunc
	started time.Time

	cp         *controlplane.ControlPlane
	admin      client.Client
	components []*component
	stopping   atomic.Bool

	webhookVolume mounted // the webhook's certificate
	service       *corev1.Service
	pod           *corev1.Pod
	podVolume     mounted
	server        *component
	first, second seen // what the server showed before and after the renewal
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
	dir, err := os.MkdirTemp("", "servingcert-demo-")
	if err != nil {
		return nil, err
	}
	d := &demo{out: &output{w: w}, dir: dir, cancel: cancel, started: time.Now()}
	return d, os.Mkdir(d.path("logs"), 0o700)
}

func (d *demo) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

func (d *demo) logFile(component string) string { return d.path("logs", component+".log") }

// stop ends what the demo started, the newest first and the control plane last,
// and removes its files.
func (d *demo) stop() error {
	d.stopping.Store(true)
	var errs []error
	for i := len(d.components) - 1; i >= 0; i-- {
		errs = append(errs, d.components[i].stop())
	}
	if d.cp != nil {
		errs = append(errs, d.cp.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
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
`, d.path("logs"), d.cp.KubeconfigFile(), d.path("ca.crt"), d.serverAddress())
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
		for _, volume := range []mounted{d.webhookVolume, d.podVolume} {
			if _, err := volume.project(ctx, d.admin); err != nil && ctx.Err() == nil {
				d.out.printf("kubelet: %v\n", err)
			}
		}
	}
}
