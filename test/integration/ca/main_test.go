// Package ca tests pkg/ca against a real API server, with the rights that it
// says it needs and no more.
package ca

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{}, func(_ context.Context, s *harness.Suite) error {
		plane, admin = s.Plane, s.Clientset
		return nil
	})
}
