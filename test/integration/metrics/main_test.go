// Package metrics tests the metrics of the three processes as they are installed, each as
// its ServiceAccount: that they are served over TLS with the certificate that their Service
// asks for, and to whom the API server lets read them; and that whoever reaches a port of
// these processes, that of the metrics or another, cannot end them.
package metrics

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
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

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{Programs: harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main}, Installed: true}, func(_ context.Context, s *harness.Suite) error {
		plane, admin, bin = s.Plane, s.Client, s.Dir
		return nil
	})
}

// process is one of those that run, with the volume of its Deployment as files.
type process struct {
	*harness.Program
	name, dir  string
	metrics    string // host:port
	reviews    string // host:port, of the webhook
	deployment appsv1.Deployment
}

// start runs the process with the arguments of its Deployment, and those that being
// outside of a cluster takes, and more. Its volume has no files yet.
func start(t *testing.T, name string, more ...string) *process {
	t.Helper()
	p := &process{name: name, dir: filepath.Join(t.TempDir(), "tls")}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: api.DefaultNamespace, Name: p.object()}, &p.deployment))
	var err error
	p.metrics, err = harness.FreeAddress()
	require.NoError(t, err)
	flags := []string{"--metrics-addr=" + p.metrics, "--metrics-cert-dir=" + p.dir}
	if name == "webhook" {
		p.reviews, err = harness.FreeAddress()
		require.NoError(t, err)
		flags = append(flags, "--cert-dir="+p.dir, "--bind-address=127.0.0.1", "--port="+p.reviews[len("127.0.0.1:"):], "--shutdown-delay=0s")
	}
	p.Program, err = harness.Deployed(t.Context(), plane, bin, &p.deployment, name, append(flags, more...)...)
	require.NoError(t, err)
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
	return kubelet.Project(ctx, admin, api.DefaultNamespace, p.deployment.Spec.Template.Spec.Volumes[0], p.dir)
}
