// Command demo shows servingcert at work on a real control plane, from nothing to a renewed
// certificate, in less than a minute: make demo.
//
// etcd, kube-apiserver and kube-controller-manager run on loopback; signer, rotators and webhook run
// beside them as processes with the ServiceAccounts and the RBAC of deploy/install.yaml. There is no
// node: the demo does what a kubelet does, projects the volumes and starts the one container.
//
// With KEEP=1 it keeps running until Ctrl-C. It leaves no process behind, and no file except the cache of
// the control plane's binaries.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
)

// demo is the state of the demo.
type demo struct {
	*installed.Cluster
	end      context.CancelCauseFunc
	programs []*process.Program // their logs are printed if a step fails

	service *corev1.Service
	pod     *corev1.Pod
	server  *process.Program  // the pod's container
	leaf    *x509.Certificate // presented last by the server
}

type step struct {
	title string
	do    func(context.Context) error
}

func (d *demo) steps() []step {
	return []step{
		{"a control plane: etcd, kube-apiserver, kube-controller-manager", d.startControlPlane},
		{"build signer, rotator and webhook", func(ctx context.Context) error {
			return d.Build(ctx, "cmd/signer", "cmd/rotator", "cmd/webhook", "hack/demo/httpsserver")
		}},
		{"apply deploy/install.yaml", d.Install},
		{"run signer, rotators and webhook, each with its ServiceAccount's permissions", d.startProcesses},
		{"label a namespace, annotate a Service (hack/demo/shop.yaml)", d.annotate},
		{"create a Deployment without any TLS settings", d.createDeployment},
		{"act as the kubelet: project the volume, start the container", d.startPod},
		{"fetch a page, trusting only the CA bundle", d.fetch},
		{"renew the certificate", d.renew},
		{"fetch again: the same process, a new key, the certificate that the condition names", d.fetch},
		{"check the logs", d.checkLogs},
	}
}

var out = log.New(os.Stdout, "        ", 0) // for what a step reports

func main() { process.Main("demo", run) }

func run(interrupted context.Context) (err error) {
	ctx, end := context.WithCancelCause(interrupted)
	d := &demo{end: end}
	d.Cluster, err = installed.New(installed.Options{Name: "demo", Log: os.Stdout, Once: true})
	defer func() {
		if err != nil && interrupted.Err() == nil {
			for _, p := range d.programs {
				out.Printf("the end of the log of the %s:\n%s", p.Name(), strings.Join(p.Log.Tail(12), "\n"))
			}
		}
		err = errors.Join(err, d.Stop())
	}()
	if err != nil {
		return err
	}
	steps, start := d.steps(), time.Now()
	for i, s := range steps {
		fmt.Printf("[%2d/%d] %s\n", i+1, len(steps), s.title)
		begin := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.title, cmp.Or(context.Cause(ctx), err))
		}
		out.Printf("ok, %s", short(time.Since(begin)))
	}
	fmt.Printf("\nDone in %s, with the permissions of deploy/install.yaml\n", short(time.Since(start)))
	if keep := os.Getenv("KEEP"); keep == "" || keep == "0" {
		return nil
	}
	if d.keep(ctx); interrupted.Err() == nil {
		return context.Cause(ctx)
	}
	return nil
}

// watch ends the demo if the program exits before.
func (d *demo) watch(p *process.Program) {
	d.programs = append(d.programs, p)
	go func() { <-p.Ended(); d.end(p.Err()) }()
}

// keep waits for Ctrl-C, or for the exit of the go run that started this process.
func (d *demo) keep(ctx context.Context) {
	fmt.Printf(`
It keeps running until Ctrl-C (logs: %s):

  export KUBECONFIG=%s
  kubectl -n shop get svc,secret,configmap,pod
  kubectl -n shop get configmap servingcert-ca.crt -o jsonpath='{.data.ca\.crt}' > %s
  curl --cacert %[3]s --connect-to web.shop.svc:443:%s https://web.shop.svc/
  kubectl -n shop annotate --overwrite service web servingcert.dev/renew-after=$(date -u +%%FT%%TZ)
`, d.LogDir(), d.Plane.KubeconfigFile(), d.Path("ca.crt"), d.address())
	for parent := os.Getppid(); os.Getppid() == parent && process.Sleep(ctx, time.Second); {
	}
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func (d *demo) startControlPlane(ctx context.Context) error {
	if err := d.StartPlane(ctx); err != nil {
		return err
	}
	version, err := d.Clientset.Discovery().ServerVersion()
	out.Printf("Kubernetes %s at %s", version, d.Plane.Host())
	return err
}

func (d *demo) startProcesses(ctx context.Context) error {
	return d.RunAll(ctx, func(p *installed.Process) {
		d.watch(&p.Program)
		out.Printf("process %d as ServiceAccount %s", p.PID(), p.ServiceAccount)
	}, "--metrics-addr=0")
}

const privateKey = "-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----" // as every kind begins in PEM

// checkLogs returns an error if a log contains a rejected API request or a private key.
func (d *demo) checkLogs(context.Context) error {
	lines, err := searchLogs(d.LogDir(), "forbidden|"+privateKey)
	if err != nil {
		return err
	}
	out.Printf("%d lines of signer, rotator, webhook and server: no \"forbidden\", and no private key", lines)
	_, err = searchLogs(d.Plane.LogDir(), privateKey)
	return err
}

// searchLogs returns the number of lines in the logs of a directory, or an error with the first line
// that matches the pattern.
func searchLogs(dir, pattern string) (lines int, err error) {
	unwanted := regexp.MustCompile("(?im)^.*(" + pattern + ").*$")
	logs, err := os.ReadDir(dir)
	for _, entry := range logs {
		text, readErr := os.ReadFile(filepath.Join(dir, entry.Name()))
		if line := unwanted.Find(text); line != nil {
			return 0, fmt.Errorf("%s: %s", entry.Name(), line)
		}
		lines, err = lines+bytes.Count(text, []byte("\n")), errors.Join(err, readErr)
	}
	return lines, err
}
