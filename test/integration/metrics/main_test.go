// Package metrics tests the metrics of the three processes as they are installed, each as
// its ServiceAccount: that they are served over TLS with the certificate that their Service
// asks for, and to whom the API server lets read them; and that whoever reaches a port of
// these processes, that of the metrics or another, cannot end them.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// names are those of the processes.
var names = []string{"signer", "trust", "rotator", "webhook"}

// plane is a control plane with servingcert installed; bin holds its programs.
var (
	plane *controlplane.ControlPlane
	admin client.Client
	bin   string
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// The first run on a machine may have to build the control plane.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if bin, err = os.MkdirTemp("", "servingcert-metrics-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	if err := harness.Build(ctx, bin, "signer", "rotator", "webhook"); err != nil {
		return 1, err
	}
	if plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if admin, err = client.New(plane.AdminConfig(), client.Options{}); err != nil {
		return 1, err
	}
	if err := deploy.Apply(ctx, admin, "test"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// process is one of those that run, with the volume of its Deployment as files.
type process struct {
	harness.Program
	name, dir  string
	metrics    string // host:port
	reviews    string // host:port, of the webhook
	deployment appsv1.Deployment
}

// start runs the process with the arguments of its Deployment, and those that being
// outside of a cluster takes. Its volume has no files yet.
func start(t *testing.T, name string) *process {
	t.Helper()
	p := &process{name: name, dir: filepath.Join(t.TempDir(), "tls")}
	program, _ := deploy.Program(name)
	p.Path = filepath.Join(bin, program)
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: api.DefaultNamespace, Name: p.object()}, &p.deployment))
	spec := p.deployment.Spec.Template.Spec
	account, err := plane.ServiceAccountConfig(t.Context(), api.DefaultNamespace, spec.ServiceAccountName)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, account))
	p.metrics, err = harness.FreeAddress()
	require.NoError(t, err)
	p.Args = slices.Concat(spec.Containers[0].Args, []string{ // of a flag given twice the last counts
		"--kubeconfig=" + kubeconfig, "--metrics-addr=" + p.metrics, "--metrics-cert-dir=" + p.dir,
	})
	if name == "webhook" {
		p.reviews, err = harness.FreeAddress()
		require.NoError(t, err)
		p.Args = append(p.Args, "--cert-dir="+p.dir, "--bind-address=127.0.0.1", "--port="+p.reviews[len("127.0.0.1:"):], "--shutdown-delay=0s")
	}
	p.Launch(t)
	p.StopAtEnd(t)
	return p
}

// object is the name of the process's Deployment, Service and ServiceAccount.
func (p *process) object() string { return "servingcert-" + p.name }

// serverName is what clients verify.
func (p *process) serverName() string { return p.object() + "." + api.DefaultNamespace + ".svc" }

// project does what the kubelet does with the only volume of the Deployment. It returns an
// error if that has no files.
func (p *process) project(ctx context.Context) error {
	files, err := kubelet.Files(ctx, admin, api.DefaultNamespace, p.deployment.Spec.Template.Spec.Volumes[0])
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("the volume of the %s has no files yet", p.name)
	}
	_, err = kubelet.Write(p.dir, files)
	return err
}
