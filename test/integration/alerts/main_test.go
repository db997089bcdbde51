//go:build alerts

package alerts

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsyncapp "github.com/servingcert/servingcert/cmd/hostsync/app"
	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// plane is a control plane with servingcert installed; bin holds its programs, and other those of another build.
var (
	plane      *controlplane.ControlPlane
	admin      client.Client
	bin, other string
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{ControllerManager: true}, Programs: harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main, "hostsync": hostsyncapp.Main}, Installed: true,
	}, func(ctx context.Context, s *harness.Suite) error {
		plane, admin, bin = s.Plane, s.Client, s.Dir
		return errors.Join(buildOther(ctx), harness.ApplyOptional(ctx, admin, "kubelet-serving.yaml"))
	})
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
