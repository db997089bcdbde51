// Package signer tests the signer against a real API server, etcd and garbage
// collector: what is promised of Services, their Secrets and their conditions.
//
// Tests that need a signer of their own, or break the cluster, run one after the
// other and first. The rest share one signer and run in parallel, each in its
// own namespace.
package signer

import (
	"context"
	"path/filepath"
	"testing"

	cfssllog "github.com/cloudflare/cfssl/log"
	"k8s.io/client-go/kubernetes"

	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane  *controlplane.ControlPlane
	admin  *kubernetes.Clientset
	binary string // of cmd/signer
)

func TestMain(m *testing.M) {
	cfssllog.Level = cfssllog.LevelError
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{
			ControllerManager: true,
			ExtraAPIServerArgs: []string{
				// kube-apiserver's defaults. Administrators are exempt.
				"--enable-priority-and-fairness=true", "--max-requests-inflight=400", "--max-mutating-requests-inflight=200",
				"--request-timeout=5m", // see occupy
			},
		},
		Programs: harness.Programs{"signer": signerapp.Main},
	}, func(_ context.Context, s *harness.Suite) error {
		plane, admin, binary = s.Plane, s.Clientset, filepath.Join(s.Dir, "signer")
		return makeSharedNamespace()
	})
}
