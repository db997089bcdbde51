//go:build gitops

package gitops

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/deb"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// Modules that pin the two tools, and the one with Helm.
const (
	fluxModule = "test/integration/gitops/build/flux"
	argoModule = "test/integration/gitops/build/argo"
	helmModule = "hack/chart"
)

// envDir is set for the run in a network namespace of its own: the directory with the
// programs that were built before, while there was a network.
const envDir = "SERVINGCERT_GITOPS_DIR"

var (
	plane *controlplane.ControlPlane
	admin client.Client // sees everything, without a cache
	dir   string        // the programs, and what they read
)

// only is the tool that is built and run, if not both are.
var only = flag.String("tool", "", "Flux or ArgoCD: only that one")

// programs are those of cmd that this executable runs as itself.
var programs = harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main, "kubectl-servingcert": pluginapp.Main}

func TestMain(m *testing.M) {
	programs.RunAs()
	flag.Parse()
	harness.Main(m, run)
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("Argo CD's controller listens on all addresses of its host, and gets a network of its own here: that needs root")
	}
	// The first run on a machine builds the control plane and both tools.
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	if dir = os.Getenv(envDir); dir == "" {
		return inOwnNetwork(ctx)
	}
	return inside(ctx, m)
}

// inOwnNetwork builds what is run, and runs these tests again in a network namespace that
// has nothing but its loopback. It goes when they end.
func inOwnNetwork(ctx context.Context) (code int, err error) {
	if dir, err = os.MkdirTemp("", "servingcert-gitops-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := build(ctx); err != nil {
		return 1, err
	}
	return harness.RunInOwnNetwork(envDir + "=" + dir)
}

// build puts links to the programs into dir.
func build(ctx context.Context) error {
	if err := programs.Link(dir); err != nil {
		return err
	}
	if _, err := controlplane.Binaries(ctx, os.Stderr, controlplane.Etcd, controlplane.KubeAPIServer, controlplane.KubeControllerManager); err != nil {
		return err
	}
	for _, b := range []struct{ of, module, program, name string }{
		{*only, helmModule, "helm", "helm"},
		{"Flux", fluxModule, "kustomize-controller", "kustomize-controller"},
		{"ArgoCD", argoModule, "cmd", "argocd"},
	} {
		if *only != "" && *only != b.of {
			continue
		}
		tools, err := controlplane.Tools(ctx, b.module)
		if err != nil {
			return err
		}
		if err := os.Symlink(tools[b.program], filepath.Join(dir, b.name)); err != nil {
			return err
		}
	}
	redis, err := deb.Files(ctx, os.Stderr, "redis-server")
	if err != nil {
		return err
	}
	return os.Symlink(redis, filepath.Join(dir, "redis"))
}

func inside(ctx context.Context, m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := harness.StartOwnNetwork(ctx); err != nil {
		return 1, err
	}
	if plane, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true, AuditUsers: []string{fluxUser, argoUser}}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if admin, err = client.New(plane.AdminConfig(), client.Options{}); err != nil {
		return 1, err
	}
	nodes, stop := context.WithCancel(ctx)
	node := harness.Node{Client: admin, Address: func(n int) string { return fmt.Sprintf("127.9.%d.%d", n/250, 1+n%250) }}
	defer stop()
	if err := node.Start(nodes); err != nil {
		return 1, err
	}
	defer func() { stop(); err = errors.Join(err, node.Wait()) }()
	return m.Run(), nil
}
