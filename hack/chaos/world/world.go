package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/chaos/fault"
	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
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
)

// kinds are the processes, in the order in which they are started.
var kinds = []string{"signer", "trust", "rotator", "webhook"}

// flags are what differs from install.yaml, so that a CA is replaced within seconds.
var flags = map[string][]string{
	"signer":  {"--ca-soak=5s", "--ca-reissue-window=5s"},
	"rotator": {"--pod-cidrs=127.0.0.0/8"},
}

// Options says how large the world is.
type Options struct {
	Services, Namespaces int
	MoveClock            bool      // signer and rotator have a clock that can be moved
	Log                  io.Writer // progress
}

// World is a control plane with an installation and what works in it.
type World struct {
	ControlPlane *controlplane.ControlPlane
	Etcd         *fault.TCP       // between kube-apiserver and etcd
	APIServer    *fault.APIServer // between the processes and kube-apiserver
	Clock        *fault.Clock     // of signers and rotators
	Disk         *fault.Disk      // under etcd; nil if this is not root
	Observer     *Observer
	Processes    []*Process
	Clientset    kubernetes.Interface // of cluster-admin, directly at kube-apiserver
	Interim      map[string]bool      // key ids of interim CAs, see NoteInterim

	options  Options
	dir      string
	admin    client.Client
	balancer *balancer
	stream   *stream
	foreign  map[string]invariant.Version
	places   []place
	renewed  int // of places
	stopping []func() error
}

// New returns a world in which every Service has its Secret. If there is an error, the world
// still has to be stopped.
func New(ctx context.Context, o Options) (*World, error) {
	w := &World{options: o, Interim: map[string]bool{}}
	var err error
	if w.dir, err = os.MkdirTemp("", "servingcert-chaos-"); err != nil {
		return w, err
	}
	w.atEnd(func() error { return os.RemoveAll(w.dir) })
	for _, do := range []func(context.Context) error{w.build, w.startControlPlane, w.install, w.startProcesses, w.populate} {
		if err := do(ctx); err != nil {
			return w, err
		}
	}
	w.Observer = observe(w.Clientset)
	w.atEnd(func() error { w.Observer.close(); return nil })
	w.stream = newStream(w.Clientset, w.places)
	w.atEnd(func() error { w.stream.close(); return nil })
	return w, nil
}

// Stop ends everything in the opposite order, and removes the files. The logs are copied
// first if there is a directory for them.
func (w *World) Stop(logs string) error {
	var errs []error
	if logs != "" {
		errs = append(errs, w.copyLogs(logs))
	}
	for _, stop := range slices.Backward(w.stopping) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

func (w *World) atEnd(do func() error) { w.stopping = append(w.stopping, do) }

func (w *World) copyLogs(to string) error {
	errs := []error{os.MkdirAll(to, 0o700)}
	files, err := filepath.Glob(w.path("*.log"))
	errs = append(errs, err)
	if w.ControlPlane != nil {
		more, err := filepath.Glob(filepath.Join(w.ControlPlane.LogDir(), "*.log"))
		files, errs = append(files, more...), append(errs, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		errs = append(errs, err, os.WriteFile(filepath.Join(to, filepath.Base(file)), data, 0o600))
	}
	return errors.Join(errs...)
}

func (w *World) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *World) say(format string, args ...any) {
	fmt.Fprintf(w.options.Log, "%s %s\n", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...))
}

func (w *World) build(ctx context.Context) error {
	w.say("building signer, rotator and webhook")
	if err := os.Mkdir(w.path("bin"), 0o700); err != nil {
		return err
	}
	const cmd = "github.com/servingcert/servingcert/cmd/"
	packages := []string{cmd + "webhook", cmd + "signer", cmd + "rotator"}
	if w.options.MoveClock {
		if err := fault.BuildWithClock(ctx, w.path("bin"), packages[1:]...); err != nil {
			return err
		}
		packages = packages[:1]
	}
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-o", w.path("bin") + string(filepath.Separator)}, packages...)...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	var err error
	w.Clock, err = fault.NewClock(w.path("clock"))
	return err
}

func (w *World) startControlPlane(ctx context.Context) error {
	w.say("starting the control plane")
	o := controlplane.Options{ControllerManager: true, Dir: w.path("controlplane"), Log: w.options.Log, EtcdVia: w.etcdVia}
	if os.Geteuid() == 0 {
		var err error
		if w.Disk, err = fault.MountDisk(w.path("disk"), diskSize); err != nil {
			return err
		}
		w.atEnd(w.Disk.Unmount)
		o.EtcdDir = w.Disk.Path("etcd")
	}
	var err error
	if w.ControlPlane, err = controlplane.Start(ctx, o); err != nil {
		return err
	}
	w.atEnd(w.ControlPlane.Stop)
	admin := w.ControlPlane.AdminConfig()
	if w.APIServer, err = fault.NewAPIServer(w.ControlPlane.Host(), admin.CAData); err != nil {
		return err
	}
	w.atEnd(w.APIServer.Close)
	admin.ContentType, admin.Timeout = "application/vnd.kubernetes.protobuf", 0
	if w.Clientset, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	w.admin, err = client.New(w.ControlPlane.AdminConfig(), client.Options{})
	return err
}

func (w *World) etcdVia(address string) (string, error) {
	var err error
	if w.Etcd, err = fault.NewTCP(address); err != nil {
		return "", err
	}
	w.atEnd(w.Etcd.Close)
	return w.Etcd.Address(), nil
}

func (w *World) install(ctx context.Context) error {
	w.say("applying deploy/install.yaml")
	return deploy.Apply(ctx, w.admin, "chaos")
}

func (w *World) startProcesses(ctx context.Context) error {
	w.atEnd(w.stopProcesses)
	for _, kind := range kinds {
		if kind == "webhook" {
			if err := w.keepVolume(ctx); err != nil {
				return err
			}
		}
		for n := range replicas {
			if err := w.run(ctx, kind, n+1); err != nil {
				return err
			}
		}
	}
	service, err := w.Clientset.CoreV1().Services(system).Get(ctx, "servingcert-webhook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := w.until(ctx, "the processes are ready", w.ready); err != nil {
		return err
	}
	address := net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(service.Spec.Ports[0].Port))
	if w.balancer, err = newBalancer(ctx, address, w.Of("webhook")); err != nil {
		return err
	}
	w.atEnd(func() error { w.balancer.close(); return nil })
	return w.until(ctx, "caBundle of the webhook", func(ctx context.Context) error {
		config, err := w.Clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "servingcert", metav1.GetOptions{})
		if err == nil && len(config.Webhooks[0].ClientConfig.CABundle) == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
}

// keepVolume does what a kubelet does with the webhooks' volume, and returns when it has the
// certificate.
func (w *World) keepVolume(ctx context.Context) error {
	deployment, err := w.Clientset.AppsV1().Deployments(system).Get(ctx, "servingcert-webhook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	volume := deployment.Spec.Template.Spec.Volumes[0]
	project := func(ctx context.Context) error {
		files, err := kubelet.Files(ctx, w.admin, system, volume)
		if err == nil {
			_, err = kubelet.Write(w.path("webhook-tls"), files)
		}
		return err
	}
	if err := w.until(ctx, "the webhook's Secret", project); err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(background, time.Second) {
			_ = project(background) // the next look may see it
		}
	}()
	w.atEnd(func() error { cancel(); <-done; return nil })
	return nil
}

// run starts a replica as its Deployment does, with the arguments that being outside of a
// cluster takes.
func (w *World) run(ctx context.Context, kind string, n int) error {
	deployment, err := w.Clientset.AppsV1().Deployments(system).Get(ctx, "servingcert-"+kind, metav1.GetOptions{})
	if err != nil {
		return err
	}
	spec := deployment.Spec.Template.Spec
	cfg, err := w.ControlPlane.ServiceAccountConfig(ctx, system, spec.ServiceAccountName)
	if err != nil {
		return err
	}
	cfg.Host, cfg.CAData = w.APIServer.Host(), w.APIServer.CA
	name := fmt.Sprint(kind, "-", n)
	kubeconfig := w.path(name + ".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, cfg); err != nil {
		return err
	}
	program, _ := deploy.Program(kind)
	p := &Process{Name: name, Kind: kind, path: w.path("bin", program), dir: w.dir, log: w.path(name + ".log")}
	for _, address := range []*string{&p.health, &p.metrics, &p.address} {
		if *address, err = freeAddress(); err != nil {
			return err
		}
	}
	outside := []string{"--kubeconfig=" + kubeconfig, "--health-addr=" + p.health, "--metrics-addr=" + p.metrics, "--metrics-insecure"}
	if kind == "webhook" {
		host, port, err := net.SplitHostPort(p.address)
		if err != nil {
			return err
		}
		outside = append(outside, "--cert-dir="+w.path("webhook-tls"), "--bind-address="+host, "--port="+port)
	}
	c := spec.Containers[0]
	p.args = slices.Concat(c.Args, flags[kind], outside) // of a flag given twice the last counts
	p.env = append(append(os.Environ(), environment(deployment)...), w.Clock.Variable())
	if err := p.start(); err != nil {
		return err
	}
	w.Processes = append(w.Processes, p)
	return nil
}

// stopProcesses ends those that were started, at once: a webhook takes its time.
func (w *World) stopProcesses() error {
	errs := make([]error, len(w.Processes))
	var stopping sync.WaitGroup
	for n, p := range w.Processes {
		stopping.Go(func() { errs[n] = p.stop() })
	}
	stopping.Wait()
	return errors.Join(errs...)
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

// Of returns the replicas of one of the three.
func (w *World) Of(kind string) []*Process {
	var out []*Process
	for _, p := range w.Processes {
		if p.Kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// Leader returns the replica that leads.
func (w *World) Leader(ctx context.Context, kind string) (*Process, error) {
	for _, p := range w.Of(kind) {
		if p.Leads(ctx) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no %s leads", kind)
}

// until calls probe until it returns nil. The error says what was wrong last.
func (w *World) until(ctx context.Context, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if !sleep(ctx, poll) {
			return fmt.Errorf("%s: not within %s: %w", what, patience, err)
		}
	}
}

// freeAddress returns a host:port of loopback that nobody listens on, and that the kernel
// gives to no client: a process that was killed finds it free again.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a port that nobody listens on: %w", err)
}
