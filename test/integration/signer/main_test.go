// Package signer tests the signer against a real API server, etcd and garbage
// collector: what is promised of Services, their Secrets and their conditions.
//
// Tests that need a signer of their own, or break the cluster, run one after the
// other and first. The rest share one signer and run in parallel, each in its
// own namespace.
package signer

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	cfssllog "github.com/cloudflare/cfssl/log"
	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane  *controlplane.ControlPlane
	admin  *kubernetes.Clientset
	binary string // of cmd/signer
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard()) // each signer has a log of its own
	klog.SetLogger(logr.Discard())
	cfssllog.Level = cfssllog.LevelError
	dir, err := os.MkdirTemp("", "servingcert-signer-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "signer")
	if err := harness.Build(context.Background(), dir, "signer"); err != nil {
		return 1, err
	}
	if plane, err = controlplane.Start(context.Background(), controlplane.Options{
		ControllerManager: true,
		ExtraAPIServerArgs: []string{
			// kube-apiserver's defaults. Administrators are exempt.
			"--enable-priority-and-fairness=true", "--max-requests-inflight=400", "--max-mutating-requests-inflight=200",
			"--request-timeout=5m", // see occupy
		},
	}); err != nil {
		return 1, err
	}
	defer func() { _ = plane.Stop() }()
	if admin, err = kubernetes.NewForConfig(plane.AdminConfig()); err != nil {
		return 1, err
	}
	if err := makeSharedNamespace(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
