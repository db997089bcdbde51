//go:build alerts

package alerts

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
	"github.com/servingcert/servingcert/test/integration/harness"
)

// plane is a control plane with servingcert installed; bin holds its programs, and other those of another build.
var (
	plane      *controlplane.ControlPlane
	admin      client.Client
	bin, other string
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// The first run on a machine may have to build the control plane.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if bin, err = os.MkdirTemp("", "servingcert-alerts-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	if err := harness.Build(ctx, bin, "signer", "rotator", "webhook"); err != nil {
		return 1, err
	}
	if err := buildOther(ctx); err != nil {
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
	if err := allowKubelets(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// buildOther builds a webhook of another version.
func buildOther(ctx context.Context) error {
	other = filepath.Join(bin, "other")
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(other, "webhook"),
		"-ldflags", "-X github.com/servingcert/servingcert/cmd/internal/version.release=v0.0.0-other", "github.com/servingcert/servingcert/cmd/webhook")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build another webhook: %w\n%s", err, out)
	}
	return nil
}
