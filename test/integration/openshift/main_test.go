// Package openshift tests, with the processes as they are installed, each as its
// ServiceAccount, that manifests made for OpenShift's service-ca work unchanged
// under --openshift-compat; and that pods of the shape of kube-scheduler get the
// Secret serving-cert, whoever made it.
package openshift

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
	"github.com/servingcert/servingcert/test/integration/harness"
)

// plane is a control plane with servingcert installed and running; dir holds its
// programs and what they read.
var (
	plane *controlplane.ControlPlane
	admin client.Client
	dir   string
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// The first run on a machine may have to build the control plane.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if dir, err = os.MkdirTemp("", "servingcert-openshift-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := harness.Build(ctx, dir, "signer", "rotator", "webhook"); err != nil {
		return 1, err
	}
	if plane, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if admin, err = client.New(plane.AdminConfig(), client.Options{}); err != nil {
		return 1, err
	}
	if err := deploy.Apply(ctx, admin, "test"); err != nil {
		return 1, err
	}
	stop, err := startAll(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}
