// Package lifecycle tests what happens to pods and certificates while servingcert is
// installed, upgraded, restarted and taken away: the three programs run as they are
// installed, each as its ServiceAccount, and pods are created all the while.
package lifecycle

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

var (
	plane *controlplane.ControlPlane
	admin client.Client // sees everything, without a cache
	dir   string        // the programs, and what they read
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// The first run on a machine may have to build the control plane.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if dir, err = os.MkdirTemp("", "servingcert-lifecycle-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := harness.Build(ctx, dir, "signer", "rotator", "webhook"); err != nil {
		return 1, err
	}
	// Namespaces are to go away when they are deleted.
	if plane, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if admin, err = client.New(plane.AdminConfig(), client.Options{}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
