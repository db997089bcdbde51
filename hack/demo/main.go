// Command demo shows servingcert at work on a real control plane, from nothing to
// a renewed certificate, in a minute: make demo.
//
// etcd, kube-apiserver and kube-controller-manager run on loopback; signer,
// rotator and webhook run beside them as processes with the ServiceAccounts and
// the RBAC of deploy/install.yaml. There is no node, so the demo does a kubelet's
// part itself: it projects the pods' volumes and starts the one container.
//
// With KEEP=1 it goes on until Ctrl-C. It leaves no process behind, and no file
// but the cache of the control plane's binaries.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// errInterrupted is why the demo's context ends on a signal.
var errInterrupted = errors.New("interrupted")

func main() { os.Exit(run()) }

// steps are the demo, in order.
func (d *demo) steps() []step {
	return []step{
		{"a control plane: etcd, kube-apiserver, kube-controller-manager", d.startControlPlane, nil},
		{"build signer, rotator and webhook", d.build, nil},
		{"apply deploy/install.yaml", d.install, nil},
		{"run the signer with its ServiceAccount's rights", d.runSigner, []string{signer}},
		{"run the rotators, of pods and of the CA bundle, each with its ServiceAccount's rights", d.runRotators, []string{trust, rotator, signer}},
		{"run the webhook with its ServiceAccount's rights", d.runWebhook, []string{webhook, signer}},
		{"label a namespace, annotate a Service (hack/demo/shop.yaml)", d.annotate, []string{signer, rotator}},
		{"create a Deployment that says nothing of TLS", d.createDeployment, []string{webhook}},
		{"play kubelet: project the volume, start the container", d.startPod, []string{web}},
		{"fetch, with nothing but the bundle as trust", d.fetch, []string{web}},
		{"renew the certificate", d.renew, []string{signer}},
		{"fetch again from the same process", d.fetchAgain, []string{web}},
		{"look through the logs", d.checkLogs, nil},
	}
}

func run() int {
	klog.SetLogger(logr.Discard()) // what client-go has to say is in the errors that it returns
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stopSignals := cancelOnSignal(cancel)
	defer stopSignals()
	d, err := newDemo(os.Stdout, cancel)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	err = d.runSteps(ctx, d.steps())
	if err == nil {
		d.summary()
		if os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0" {
			err = d.keep(ctx)
		}
	}
	if stopErr := d.stop(); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("clean up: %w", stopErr))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		return 1
	}
	return 0
}

// cancelOnSignal ends the demo in order on the first signal; a second one ends
// the process at once, and the kernel then ends its children.
//
// It also ends when the process that started it is gone: a go run that is killed
// takes nobody with it.
func cancelOnSignal(cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	parent, ticker := os.Getppid(), time.NewTicker(time.Second)
	done := make(chan struct{})
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-signals:
				signal.Stop(signals)
				cancel(errInterrupted)
				return
			case <-ticker.C:
				if os.Getppid() != parent {
					cancel(errInterrupted)
					return
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}
