// Package rights tests that each rule of install.yaml's roles is used by a process,
// and that no request of a process is refused: the programs run as they are
// installed, each as its ServiceAccount, one scene has them do everything that
// they do, and the API server's audit log tells which requests they sent.
package rights

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

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

// programs, and the ServiceAccount of each.
var programs = []string{"signer", "trust", "rotator", "webhook"}

func accountOf(program string) string {
	return "system:serviceaccount:" + system + ":servingcert-" + program
}

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
	if dir, err = os.MkdirTemp("", "servingcert-rights-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := harness.Build(ctx, dir, "signer", "rotator", "webhook"); err != nil {
		return 1, err
	}
	options := controlplane.Options{Features: controlplane.Features()}
	for _, program := range programs {
		options.AuditUsers = append(options.AuditUsers, accountOf(program))
	}
	if plane, err = controlplane.Start(ctx, options); err != nil {
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
