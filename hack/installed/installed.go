// Package installed runs a control plane with servingcert installed from deploy/: etcd,
// kube-apiserver and kube-controller-manager on loopback, and signer, rotators and webhook as
// processes with the arguments, environment, ServiceAccounts and permissions of their Deployments,
// and tenants that use it. There is no node: in place of kubelets and kube-proxy, this package
// projects volumes, restarts processes that exit, runs pods and forwards connections.
package installed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// patience is the timeout of waits, and poll their interval.
const (
	patience = 90 * time.Second
	poll     = 50 * time.Millisecond
)

// Options describes a cluster.
type Options struct {
	Name  string               // of the field manager and the directory
	Log   io.Writer            // progress
	Plane controlplane.Options // without Dir
	// Flags follow those of a process's Deployment, and override them.
	Flags map[string][]string
	Env   func() []string    // further variables; may be nil
	Via   func(*rest.Config) // changes how the processes connect to the API server; may be nil
	Once  bool               // do not restart a process that exits
	Pause time.Duration      // between the exit of a process and its restart
	// Replicas is how many processes RunAll runs of each Deployment; 0: 1.
	Replicas int
}

// Cluster is a control plane with an installation.
type Cluster struct {
	Plane     *controlplane.ControlPlane
	Admin     client.Client
	Clientset kubernetes.Interface // of cluster-admin, without a timeout
	Processes []*Process           // in the order in which they were started

	options  Options
	dir      string
	stopping []func() error
}

// New returns a cluster without processes. The caller must stop it, even with an error.
func New(o Options) (*Cluster, error) {
	c := &Cluster{options: o}
	var err error
	if c.dir, err = os.MkdirTemp("", "servingcert-"+o.Name+"-"); err != nil {
		return c, err
	}
	c.AtEnd(func() error { return os.RemoveAll(c.dir) })
	return c, errors.Join(os.Mkdir(c.LogDir(), 0o700), os.Mkdir(c.Path("bin"), 0o700))
}

// Path returns a path below the cluster's directory.
func (c *Cluster) Path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// LogDir returns the directory of the processes' logs, NAME.log.
func (c *Cluster) LogDir() string { return c.Path("logs") }

// CertDir returns the directory of the webhook's volume.
func (c *Cluster) CertDir() string { return c.Path("webhook-tls") }

// AtEnd registers a function that Stop calls, before those that were registered earlier.
func (c *Cluster) AtEnd(do func() error) { c.stopping = append(c.stopping, do) }

// Say reports progress.
func (c *Cluster) Say(format string, args ...any) {
	process.Say(c.options.Log, format, args...)
}

// Build builds packages of this repository, by their paths.
func (c *Cluster) Build(ctx context.Context, packages ...string) error {
	return process.Build(ctx, c.Path("bin"), nil, packages...)
}

// StartPlane starts the control plane.
func (c *Cluster) StartPlane(ctx context.Context, more ...func(*controlplane.Options)) error {
	o := c.options.Plane
	o.Dir, o.ControllerManager, o.Log = c.Path("controlplane"), true, c.options.Log
	for _, change := range more {
		change(&o)
	}
	var err error
	if c.Plane, err = controlplane.Start(ctx, o); err != nil {
		return err
	}
	c.AtEnd(c.Plane.Stop)
	if c.Admin, err = client.New(c.Plane.AdminConfig(), client.Options{}); err != nil {
		return err
	}
	cfg := c.Plane.AdminConfig()
	cfg.ContentType, cfg.Timeout = "application/vnd.kubernetes.protobuf", 0
	c.Clientset, err = kubernetes.NewForConfig(cfg)
	return err
}

// Install applies deploy/install.yaml.
func (c *Cluster) Install(ctx context.Context) error {
	return deploy.Apply(ctx, c.Admin, c.options.Name)
}

// WithoutEtcd calls do with etcd's data directory while etcd and the API server are stopped.
func (c *Cluster) WithoutEtcd(ctx context.Context, do func(dir string) error) error {
	c.Plane.StopAPIServer()
	c.Plane.StopEtcd()
	if err := do(c.Plane.EtcdDir()); err != nil {
		return err
	}
	return errors.Join(c.Plane.StartEtcd(ctx), c.Plane.StartAPIServer(ctx))
}

// WebhookAddress returns the ClusterIP of the webhook's Service, without and with the port.
func (c *Cluster) WebhookAddress(ctx context.Context) (host, address string, err error) {
	service, err := c.Clientset.CoreV1().Services(api.DefaultNamespace).Get(ctx, "servingcert-webhook", metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	host = service.Spec.ClusterIP
	return host, net.JoinHostPort(host, fmt.Sprint(service.Spec.Ports[0].Port)), nil
}

// KeepVolume mounts the webhook's volume.
func (c *Cluster) KeepVolume(ctx context.Context) error {
	deployment, err := c.Clientset.AppsV1().Deployments(api.DefaultNamespace).Get(ctx, "servingcert-webhook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return c.Mount(ctx, api.DefaultNamespace, deployment.Spec.Template.Spec.Volumes[0], c.CertDir())
}

// Mount projects a volume into dir, as a kubelet does, and returns when dir contains its files. Changes
// follow within a second, until Stop.
func (c *Cluster) Mount(ctx context.Context, namespace string, volume corev1.Volume, dir string) error {
	project := func(ctx context.Context) error {
		return kubelet.Project(ctx, c.Admin, namespace, volume, dir)
	}
	if err := Until(ctx, "the files of volume "+volume.Name, project); err != nil {
		return err
	}
	c.Every(time.Second, func(ctx context.Context) { _ = project(ctx) }) // the next look may see it
	return nil
}

// Every does something in the background, again and again with a pause before each time, until Stop.
func (c *Cluster) Every(pause time.Duration, do func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for process.Sleep(ctx, pause) {
			do(ctx)
		}
	}()
	c.AtEnd(func() error { cancel(); <-done; return nil })
}

// AwaitCABundle waits until the API server trusts the webhook.
func (c *Cluster) AwaitCABundle(ctx context.Context) error {
	return Until(ctx, "caBundle of the webhook", func(ctx context.Context) error {
		config, err := c.Clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "servingcert", metav1.GetOptions{})
		if err == nil && len(config.Webhooks[0].ClientConfig.CABundle) == 0 {
			err = errors.New("empty")
		}
		return err
	})
}

// StopProcesses stops all processes concurrently, as a webhook takes a while.
func (c *Cluster) StopProcesses() error {
	errs := make([]error, len(c.Processes))
	var stopping sync.WaitGroup
	for n, p := range c.Processes {
		stopping.Go(func() { errs[n] = p.Stop() })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// Stop ends everything, the newest first, and removes the files.
func (c *Cluster) Stop() error {
	errs := []error{c.StopProcesses()}
	for _, stop := range slices.Backward(c.stopping) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// Until calls probe until it returns nil, or returns its last error after a timeout.
func Until(ctx context.Context, what string, probe func(context.Context) error) error {
	_, err := Await(ctx, what, poll, probe)
	return err
}

// Await is Until with the given interval between calls. It returns the time that it waited.
func Await(ctx context.Context, what string, every time.Duration, probe func(context.Context) error) (time.Duration, error) {
	start := time.Now()
	if err := process.Poll(ctx, patience, every, probe); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return time.Since(start), nil
}
