// Package openshift tests, with the processes as they are installed, each as its
// ServiceAccount, that manifests made for OpenShift's service-ca work unchanged
// under --openshift-compat; and that pods of the shape of kube-scheduler get the
// Secret serving-cert, whoever made it.
package openshift

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
)

// plane is a control plane with servingcert installed and running; dir holds its
// programs and what they read.
var (
	plane *controlplane.ControlPlane
	admin client.Client
	dir   string
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

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
	for _, name := range programs {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), "github.com/servingcert/servingcert/cmd/"+name)
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build cmd/%s: %w\n%s", name, err, out)
		}
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
	defer stop()
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}
