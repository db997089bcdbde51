// Package kubelet tests, on the real API server and with the real kube-controller-manager, which
// serving certificates of kubelets the signer approves.
package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane  *controlplane.ControlPlane
	admin  *kubernetes.Clientset
	dir    string
	signer string // the program
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if dir, err = os.MkdirTemp("", "servingcert-kubelet-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	signer = filepath.Join(dir, "signer")
	if err := harness.Build(ctx, dir, "signer"); err != nil {
		return 1, err
	}
	// Without NodeRestriction the API server takes every request, as it did before Kubernetes
	// 1.31: what it refuses today never comes to the signer.
	if plane, err = controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true, ApprovedRequests: true,
		ExtraAPIServerArgs: []string{"--disable-admission-plugins=NodeRestriction"},
	}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if admin, err = kubernetes.NewForConfig(plane.AdminConfig()); err != nil {
		return 1, err
	}
	c, err := client.New(plane.AdminConfig(), client.Options{})
	if err != nil {
		return 1, err
	}
	if err := harness.ApplyRights(ctx, c, "signer"); err != nil {
		return 1, err
	}
	account, err := plane.ServiceAccountConfig(ctx, api.DefaultNamespace, "servingcert-signer")
	if err != nil {
		return 1, err
	}
	if err := controlplane.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), account); err != nil {
		return 1, err
	}
	if err := withoutTheRight(ctx, account); err != nil {
		return 1, err
	}
	manifest, err := os.ReadFile("../../../deploy/policies/kubelet-serving.yaml")
	if err != nil {
		return 1, err
	}
	objects, err := deploy.Decode(manifest)
	if err != nil {
		return 1, err
	}
	if err := deploy.ApplyObjects(ctx, c, "test", objects); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// startSigner runs the program, with the rights of the manifests, until the test ends.
func startSigner(t *testing.T, flags ...string) {
	t.Helper()
	p := &harness.Program{Path: signer, Args: append([]string{
		"--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--metrics-addr=0", "--leader-elect=false", "--log-level=debug",
	}, flags...)}
	p.Start(t)
	p.StopAtEnd(t)
}

// approving are the flags with which it approves requests of kubelets.
var approving = []string{"--approve-kubelet-serving", "--node-cidrs=10.0.0.0/24,fd00::/64", "--node-dns-suffixes=nodes.example.com"}
