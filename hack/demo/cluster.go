package main

import (
	"context"
	"time"

	"github.com/servingcert/servingcert/deploy"
)

// fieldOwner is who applies, as kubectl's --field-manager says.
const fieldOwner = "demo"

func (d *demo) startControlPlane(ctx context.Context) error {
	if err := d.StartPlane(ctx); err != nil {
		return err
	}
	version, err := d.Clientset.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	d.out.printf("Kubernetes %s at %s\n", version.GitVersion, d.Plane.Host())
	return nil
}

func (d *demo) build(ctx context.Context) error {
	d.out.printf("go build ./cmd/signer ./cmd/rotator ./cmd/webhook ./hack/demo/httpsserver\n")
	return d.Build(ctx, "cmd/signer", "cmd/rotator", "cmd/webhook", "hack/demo/httpsserver")
}

func (d *demo) install(ctx context.Context) error {
	objects, err := deploy.Objects()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := d.Install(ctx); err != nil {
		return err
	}
	d.out.printf("%d objects, server-side, in %s\n", len(objects), short(time.Since(start)))
	return nil
}
