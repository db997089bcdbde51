package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/pkg/api"
)

func (d *demo) runSigner(ctx context.Context) error {
	took, err := d.runProcess(ctx, signer)
	if err != nil {
		return err
	}
	status := &corev1.ConfigMap{}
	if _, err := installed.Await(ctx, "the CA", measuring, func(ctx context.Context) error {
		return d.Admin.Get(ctx, inSystem(api.CAStatusName), status)
	}); err != nil {
		return err
	}
	secret, err := installed.Await(ctx, "the webhook's Secret", measuring, func(ctx context.Context) error {
		return d.Admin.Get(ctx, inSystem("servingcert-webhook-tls"), &corev1.Secret{})
	})
	if err != nil {
		return err
	}
	d.out.printf("leads, and has made the CA and the webhook's Secret, %s after its start\n", short(took+secret))
	return nil
}

func (d *demo) runRotators(ctx context.Context) error {
	if _, err := d.runProcess(ctx, rotator); err != nil {
		return err
	}
	took, err := d.runProcess(ctx, trust)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := d.AwaitCABundle(ctx); err != nil {
		return err
	}
	d.out.printf("leads, and has written the webhook's caBundle, %s after its start\n", short(took+time.Since(start)))
	return nil
}

// runWebhook plays kubelet for the webhook's Deployment: its certificate comes
// from the volume that is mounted there. It listens where the API server will
// look for it, on its Service's ClusterIP.
func (d *demo) runWebhook(ctx context.Context) error {
	host, address, err := d.WebhookAddress(ctx)
	if err != nil {
		return err
	}
	if err := d.KeepVolume(ctx); err != nil {
		return err
	}
	took, err := d.runProcess(ctx, webhook, "--bind-address="+host, "--shutdown-delay=0s")
	if err != nil {
		return err
	}
	d.out.printf("ready %s after its start, at its Service's address %s\n", short(took), address)
	return nil
}

// runProcess starts one of them as its Deployment does, and waits until it is ready.
func (d *demo) runProcess(ctx context.Context, name string, extra ...string) (time.Duration, error) {
	p, err := d.Run(ctx, name, append(extra, "--metrics-addr=0")...)
	if err != nil {
		return 0, err
	}
	d.watch(&p.Program)
	start := time.Now()
	d.out.printf("process %d as ServiceAccount %s\n", p.PID(), p.ServiceAccount)
	err = p.AwaitReady(ctx)
	return time.Since(start), err
}

func inSystem(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: api.DefaultNamespace, Name: name}
}
