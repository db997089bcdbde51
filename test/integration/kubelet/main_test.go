// Package kubelet tests, on the real API server and with the real kube-controller-manager, which
// serving certificates of kubelets the signer approves.
package kubelet

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes"

	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
	dir   string // of the program
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		// Without NodeRestriction the API server takes every request, as it did before Kubernetes
		// 1.31: what it refuses today never comes to the signer.
		ControlPlane: controlplane.Options{
			ControllerManager: true, ApprovedRequests: true,
			ExtraAPIServerArgs: []string{"--disable-admission-plugins=NodeRestriction"},
		},
		Programs: harness.Programs{"signer": signerapp.Main}, RightsOf: "signer",
	}, prepare)
}

// prepare applies what lets the signer approve, which it may not without.
func prepare(ctx context.Context, s *harness.Suite) error {
	plane, admin, dir = s.Plane, s.Clientset, s.Dir
	if err := withoutTheRight(ctx, s.Account); err != nil {
		return err
	}
	return harness.ApplyOptional(ctx, s.Client, "kubelet-serving.yaml")
}

// startSigner runs the program until the test ends.
func startSigner(t *testing.T, flags ...string) {
	t.Helper()
	harness.StartSigner(t, plane, dir, flags...)
}

// approving are the flags with which it approves requests of kubelets.
var approving = []string{"--approve-kubelet-serving", "--node-cidrs=10.0.0.0/24,fd00::/64", "--node-dns-suffixes=nodes.example.com"}
