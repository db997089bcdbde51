package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
)

// fieldOwner is who applies, as kubectl's --field-manager says.
const fieldOwner = "demo"

func (d *demo) startControlPlane(ctx context.Context) error {
	var err error
	d.cp, err = controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true,
		Dir:               d.path("controlplane"),
		Log:               d.out,
	})
	if err != nil {
		return err
	}
	if d.admin, err = client.New(d.cp.AdminConfig(), client.Options{}); err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(d.cp.AdminConfig())
	if err != nil {
		return err
	}
	version, err := clientset.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	d.out.printf("Kubernetes %s at %s\n", version.GitVersion, d.cp.Host())
	return nil
}

// build leaves CGO_ENABLED as it is, unlike the images' build, so that what go run
// has just compiled for the demo itself is not compiled a second time.
func (d *demo) build(ctx context.Context) error {
	root, err := outputOf(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}"))
	if err != nil {
		return err
	}
	d.out.printf("go build ./cmd/signer ./cmd/rotator ./cmd/webhook ./hack/demo/httpsserver\n")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", d.path("bin")+string(os.PathSeparator),
		"./cmd/signer", "./cmd/rotator", "./cmd/webhook", "./hack/demo/httpsserver")
	cmd.Dir = root
	_, err = outputOf(cmd)
	return err
}

// outputOf returns what a command prints, or an error with what it complains of.
func outputOf(cmd *exec.Cmd) (string, error) {
	// Interrupted, go build ends its compilers; killed, it would leave them behind.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.SysProcAttr = procAttr(syscall.SIGINT)
	cmd.WaitDelay = grace
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

func (d *demo) install(ctx context.Context) error {
	objects, err := deploy.Objects()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := deploy.Apply(ctx, d.admin, fieldOwner); err != nil {
		return err
	}
	d.out.printf("%d objects, server-side, in %s\n", len(objects), short(time.Since(start)))
	return nil
}
