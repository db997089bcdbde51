package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
)

// Setup says what the tests of a package share. The zero value is a control plane with
// nothing of servingcert.
type Setup struct {
	ControlPlane controlplane.Options
	// NoControlPlane leaves it out: prepare starts it by StartPlane, or each test one of its own.
	NoControlPlane bool
	Programs       Programs // of cmd, which the test binary runs as itself, in Suite.Dir
	Installed      bool     // deploy/install.yaml is applied
	RightsOf       string   // a process: of install.yaml, what it may do is applied, and no more
	SideBySide     int      // how many parallel tests run at once; 0: one for each core
}

// Suite is what they share. Its end is that of the tests.
type Suite struct {
	Plane     *controlplane.ControlPlane
	Client    client.WithWatch      // of cluster-admin, without a cache
	Clientset *kubernetes.Clientset // the same
	Account   *rest.Config          // of the process in Setup.RightsOf
	Dir       string                // of the programs, and for what they read

	stopping []func() error
}

// AtEnd registers what is done after the tests, before what was registered earlier. Its
// error fails them.
func (s *Suite) AtEnd(do func() error) { s.stopping = append(s.stopping, do) }

// Run is a package's TestMain: it sets up, has prepare do what is special of the package,
// runs the tests and takes down. Loggers of libraries are silent: what a test starts logs
// to the test.
func Run(m *testing.M, setup Setup, prepare func(context.Context, *Suite) error) {
	setup.Programs.RunAs()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	s := &Suite{}
	code, err := 1, s.start(setup, prepare)
	if err == nil {
		code = m.Run()
	}
	for _, stop := range slices.Backward(s.stopping) {
		err = errors.Join(err, stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func (s *Suite) start(setup Setup, prepare func(context.Context, *Suite) error) (err error) {
	// The first run on a machine may have to build the control plane.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if setup.SideBySide > 0 { // before m.Run reads -parallel
		if err := sideBySide(setup.SideBySide); err != nil {
			return err
		}
	}
	if s.Dir, err = os.MkdirTemp("", "servingcert-test-"); err != nil {
		return err
	}
	s.AtEnd(func() error { return os.RemoveAll(s.Dir) })
	if err := setup.Programs.Link(s.Dir); err != nil {
		return err
	}
	if !setup.NoControlPlane {
		if err := s.StartPlane(ctx, setup.ControlPlane); err != nil {
			return err
		}
	}
	switch {
	case setup.Installed:
		err = errors.Join(deploy.Apply(ctx, s.Client, "test"), PoliciesInForce(ctx, s.Client))
	case setup.RightsOf != "":
		err = errors.Join(ApplyRights(ctx, s.Client, setup.RightsOf), PoliciesInForce(ctx, s.Client))
		if err == nil {
			s.Account, err = s.Plane.ServiceAccountConfig(ctx, api.DefaultNamespace, "servingcert-"+setup.RightsOf)
		}
	}
	if err != nil || prepare == nil {
		return err
	}
	return prepare(ctx, s)
}

// StartPlane starts the control plane, until the tests end.
func (s *Suite) StartPlane(ctx context.Context, options controlplane.Options) (err error) {
	if s.Plane, err = controlplane.Start(ctx, options); err != nil {
		return err
	}
	s.AtEnd(s.Plane.Stop)
	if s.Client, err = client.NewWithWatch(s.Plane.AdminConfig(), client.Options{}); err != nil {
		return err
	}
	s.Clientset, err = kubernetes.NewForConfig(s.Plane.AdminConfig())
	return err
}
