package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	system = api.DefaultNamespace
	// patience is how long the first tenant waits for one thing, and for what goes on
	// when its time is over.
	patience = 90 * time.Second
	// poll is how often to look at what is not measured.
	poll = 50 * time.Millisecond
)

// flags are what differs from install.yaml, so that in two minutes something is stale
// and a CA is replaced.
var flags = map[string][]string{
	"signer":  {"--ca-soak=10s", "--ca-reissue-window=20s"},
	"rotator": {"--propagation-time=20s"},
}

// podRanges is the rotator's flag for the addresses that it dials, where it has one:
// pods are on loopback here.
const podRanges = "--pod-cidrs"

// world is a control plane with an installation.
type world struct {
	dir       string
	cp        *controlplane.ControlPlane
	clientset kubernetes.Interface // of cluster-admin
	admin     client.Client
	processes []*process
	webhook   string // host:port of its Service

	stopVolume context.CancelFunc
	volumeDone chan struct{}
}

// newWorld returns a world that works. If there is an error, the world, if any, still
// has to be stopped.
func newWorld(ctx context.Context) (*world, error) {
	dir, err := os.MkdirTemp("", "servingcert-hostile-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir}
	for _, do := range []func(context.Context) error{w.build, w.startControlPlane, w.install, w.startSigner, w.startRotator, w.startWebhook} {
		if err := do(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *world) build(ctx context.Context) error {
	step("building signer, rotator and webhook")
	for _, name := range []string{"signer", "rotator", "webhook"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", w.path("bin", name), "github.com/servingcert/servingcert/cmd/"+name)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build cmd/%s: %w\n%s", name, err, out)
		}
	}
	return nil
}

func (w *world) startControlPlane(ctx context.Context) error {
	step("starting the control plane")
	var err error
	w.cp, err = controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true, Dir: w.path("controlplane"),
		ExtraAPIServerArgs: []string{
			"--enable-priority-and-fairness=true", "--max-requests-inflight=400", "--max-mutating-requests-inflight=200", // the defaults
			"--etcd-compaction-interval=30s", // the attacks write more than etcd keeps
		},
	})
	if err != nil {
		return err
	}
	if w.admin, err = client.New(w.cp.AdminConfig(), client.Options{}); err != nil {
		return err
	}
	w.clientset, err = kubernetes.NewForConfig(w.cp.AdminConfig())
	return err
}

func (w *world) install(ctx context.Context) error {
	step("applying deploy/install.yaml")
	return deploy.Apply(ctx, w.admin, "hostile")
}

func (w *world) startSigner(ctx context.Context) error {
	if err := w.run(ctx, "signer"); err != nil {
		return err
	}
	return until(ctx, "the webhook's Secret", func(ctx context.Context) error {
		_, err := w.clientset.CoreV1().Secrets(system).Get(ctx, "servingcert-webhook-tls", metav1.GetOptions{})
		return err
	})
}

func (w *world) startRotator(ctx context.Context) error {
	var extra []string
	// It exits with an error or without: what counts is what it prints.
	if help, _ := exec.CommandContext(ctx, w.path("bin", "rotator"), "--help").CombinedOutput(); strings.Contains(string(help), podRanges) {
		extra = append(extra, podRanges+"=127.0.0.0/8")
	}
	if err := errors.Join(w.run(ctx, "trust"), w.run(ctx, "rotator", extra...)); err != nil {
		return err
	}
	return until(ctx, "caBundle of the webhook", func(ctx context.Context) error {
		config, err := w.clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "servingcert", metav1.GetOptions{})
		if err == nil && len(config.Webhooks[0].ClientConfig.CABundle) == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
}

// startWebhook starts the webhook where the API server looks for it, at its Service's
// ClusterIP, and keeps the files with its certificate as a kubelet does.
func (w *world) startWebhook(ctx context.Context) error {
	deployment, err := w.clientset.AppsV1().Deployments(system).Get(ctx, "servingcert-webhook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	service, err := w.clientset.CoreV1().Services(system).Get(ctx, "servingcert-webhook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	w.webhook = fmt.Sprintf("%s:%d", service.Spec.ClusterIP, service.Spec.Ports[0].Port)
	volume := deployment.Spec.Template.Spec.Volumes[0]
	project := func(ctx context.Context) error {
		files, err := kubelet.Files(ctx, w.admin, system, volume)
		if err == nil {
			_, err = kubelet.Write(w.path("webhook-tls"), files)
		}
		return err
	}
	if err := project(ctx); err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.Background())
	w.stopVolume, w.volumeDone = cancel, make(chan struct{})
	go func() {
		defer close(w.volumeDone)
		for sleep(background, time.Second) {
			_ = project(background) // the next look may see it
		}
	}()
	return w.run(ctx, "webhook", "--cert-dir="+w.path("webhook-tls"), "--bind-address="+service.Spec.ClusterIP, "--shutdown-delay=0s")
}

// run starts one of the processes as its Deployment does, with the arguments that being
// outside of a cluster takes, and waits until it is ready.
func (w *world) run(ctx context.Context, name string, extra ...string) error {
	step("starting the %s", name)
	deployment, err := w.clientset.AppsV1().Deployments(system).Get(ctx, "servingcert-"+name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	spec := deployment.Spec.Template.Spec
	cfg, err := w.cp.ServiceAccountConfig(ctx, system, spec.ServiceAccountName)
	if err != nil {
		return err
	}
	kubeconfig := w.path(name + ".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, cfg); err != nil {
		return err
	}
	health, err := freeAddress()
	if err != nil {
		return err
	}
	program, _ := deploy.Program(name)
	metrics, err := freeAddress()
	if err != nil {
		return err
	}
	outside := []string{
		"--kubeconfig=" + kubeconfig, "--health-addr=" + health,
		"--metrics-addr=" + metrics, "--metrics-cert-dir=" + w.path("webhook-tls"), // any certificate will do, for a start none
	}
	c := spec.Containers[0]
	p := &process{
		name: name, path: w.path("bin", program), dir: w.dir, log: w.path(name + ".log"), health: health, metrics: metrics,
		args: slices.Concat(c.Args, flags[name], outside, extra), // of a flag given twice the last counts
		env:  append(os.Environ(), environment(deployment)...), limit: c.Resources.Limits.Memory().Value(),
	}
	if err := p.start(); err != nil {
		return err
	}
	w.processes = append(w.processes, p)
	return until(ctx, name+" is ready", func(ctx context.Context) error {
		return controlplane.GetOK(ctx, http.DefaultClient, "http://"+p.health+"/readyz")
	})
}

// environment returns the variables of the Deployment's container.
func environment(deployment *appsv1.Deployment) []string {
	var env []string
	c := deployment.Spec.Template.Spec.Containers[0]
	for _, e := range c.Env {
		value := e.Value
		if f := e.ValueFrom; f != nil && f.ResourceFieldRef != nil && f.ResourceFieldRef.Resource == "requests."+string(corev1.ResourceMemory) {
			value = fmt.Sprint(c.Resources.Requests.Memory().Value())
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

// stop ends everything, the control plane last, and removes the files. The logs are
// copied first if there is a directory for them.
func (w *world) stop(logs string) error {
	var errs []error
	for _, p := range slices.Backward(w.processes) {
		errs = append(errs, p.stop())
	}
	if w.stopVolume != nil {
		w.stopVolume()
		<-w.volumeDone
	}
	if logs != "" {
		errs = append(errs, os.MkdirAll(logs, 0o700))
		for _, p := range w.processes {
			data, err := os.ReadFile(p.log)
			errs = append(errs, err, os.WriteFile(filepath.Join(logs, p.name+".log"), data, 0o600))
		}
	}
	if w.cp != nil {
		errs = append(errs, w.cp.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

// until calls probe until it returns nil. The error says what was wrong last.
func until(ctx context.Context, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if !sleep(ctx, poll) {
			return late(ctx, "%s: %v", what, err)
		}
	}
}

// sleep reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// freeAddress returns a host:port of loopback that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
