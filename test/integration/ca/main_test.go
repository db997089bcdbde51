// Package ca tests pkg/ca against a real API server, with the rights that it
// says it needs and no more.
package ca

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard()) // each controller logs to its test
	klog.SetLogger(logr.Discard())
	if plane, err = controlplane.Start(context.Background(), controlplane.Options{}); err != nil {
		return 1, err
	}
	defer func() { _ = plane.Stop() }()
	if admin, err = kubernetes.NewForConfig(plane.AdminConfig()); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
