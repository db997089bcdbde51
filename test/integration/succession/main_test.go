// Package succession tests that a CA is replaced without one failed handshake:
// by the processes as they are installed, on a real API server, while clients of
// all ages shake hands with servers of all ages.
package succession

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// bin holds the programs.
var bin string

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard()) // each controller logs to its test
	klog.SetLogger(logr.Discard())
	if err := harness.SideBySide(4); err != nil { // before m.Run reads -parallel
		return 1, err
	}
	if bin, err = os.MkdirTemp("", "servingcert-succession-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	ctx := context.Background()
	if err := harness.Build(ctx, bin, "signer", "rotator", "kubectl-servingcert"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// installed starts a control plane and applies deploy/install.yaml to it.
func installed(ctx context.Context) (*controlplane.ControlPlane, *kubernetes.Clientset, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(plane.AdminConfig(), client.Options{})
	if err == nil {
		err = deploy.Apply(ctx, c, "test")
	}
	binary := plane.AdminConfig() // which takes less to read: traffic reads all the time
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	clientset, setErr := kubernetes.NewForConfig(binary)
	if err = errors.Join(err, setErr); err != nil {
		return nil, nil, errors.Join(err, plane.Stop())
	}
	return plane, clientset, nil
}
