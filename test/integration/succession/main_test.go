// Package succession tests that a CA is replaced without one failed handshake:
// by the processes as they are installed, on a real API server, while clients of
// all ages shake hands with servers of all ages.
package succession

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// bin holds the programs.
var bin string

func TestMain(m *testing.M) {
	operatorInstead()
	harness.Run(m, harness.Setup{
		NoControlPlane: true, SideBySide: 6, Programs: harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "kubectl-servingcert": pluginapp.Main},
	}, func(_ context.Context, s *harness.Suite) error {
		bin = s.Dir
		return nil
	})
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
