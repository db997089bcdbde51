package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
)

func (d *demo) runSigner(ctx context.Context) error {
	took, err := d.runProcess(ctx, signer)
	if err != nil {
		return err
	}
	status := &corev1.ConfigMap{}
	if _, err := until(ctx, "the CA", measuring, func(ctx context.Context) error {
		return d.admin.Get(ctx, inSystem(api.CAStatusName), status)
	}); err != nil {
		return err
	}
	secret, err := until(ctx, "the webhook's Secret", measuring, func(ctx context.Context) error {
		return d.admin.Get(ctx, inSystem("servingcert-webhook-tls"), &corev1.Secret{})
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
	wrote, err := until(ctx, "caBundle in MutatingWebhookConfiguration servingcert", measuring, func(ctx context.Context) error {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		err := d.admin.Get(ctx, types.NamespacedName{Name: "servingcert"}, config)
		if err == nil && len(config.Webhooks[0].ClientConfig.CABundle) == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
	if err != nil {
		return err
	}
	d.out.printf("leads, and has written the webhook's caBundle, %s after its start\n", short(took+wrote))
	return nil
}

// runWebhook plays kubelet for the webhook's Deployment: its certificate comes
// from the volume that is mounted there. It listens where the API server will
// look for it, on its Service's ClusterIP.
func (d *demo) runWebhook(ctx context.Context) error {
	service := &corev1.Service{}
	if err := d.admin.Get(ctx, inSystem("servingcert-webhook"), service); err != nil {
		return err
	}
	deployment := &appsv1.Deployment{}
	if err := d.admin.Get(ctx, inSystem("servingcert-webhook"), deployment); err != nil {
		return err
	}
	d.webhookVolume = mounted{
		namespace: api.DefaultNamespace,
		volume:    deployment.Spec.Template.Spec.Volumes[0],
		dir:       d.path("webhook-tls"),
	}
	if _, err := d.webhookVolume.project(ctx, d.admin); err != nil {
		return err
	}
	took, err := d.runProcess(ctx, webhook, "--cert-dir="+d.webhookVolume.dir, "--bind-address="+service.Spec.ClusterIP, "--shutdown-delay=0s")
	if err != nil {
		return err
	}
	d.out.printf("ready %s after its start, at its Service's address %s:%d\n", short(took), service.Spec.ClusterIP, service.Spec.Ports[0].Port)
	return nil
}

// runProcess starts one of them as its Deployment does, with the arguments
// that being outside of a cluster takes, and waits until it is ready.
func (d *demo) runProcess(ctx context.Context, name string, extra ...string) (time.Duration, error) {
	deployment := &appsv1.Deployment{}
	if err := d.admin.Get(ctx, inSystem("servingcert-"+name), deployment); err != nil {
		return 0, err
	}
	spec := deployment.Spec.Template.Spec
	cfg, err := d.cp.ServiceAccountConfig(ctx, api.DefaultNamespace, spec.ServiceAccountName)
	if err != nil {
		return 0, err
	}
	kubeconfig := d.path(name + ".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, cfg); err != nil {
		return 0, err
	}
	health, err := freePort()
	if err != nil {
		return 0, err
	}
	outside := []string{"--kubeconfig=" + kubeconfig, "--health-addr=" + health, "--metrics-addr=0"}
	args := slices.Concat(spec.Containers[0].Args, outside, extra) // of a flag given twice the last counts
	program, _ := deploy.Program(name)
	c, err := d.start(name, d.path("bin", program), args, nil)
	if err != nil {
		return 0, err
	}
	d.out.printf("process %d as ServiceAccount %s\n", c.pid(), spec.ServiceAccountName)
	return until(ctx, name+" is ready", starting, func(ctx context.Context) error { return getOK(ctx, "http://"+health+"/readyz") })
}

func inSystem(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: api.DefaultNamespace, Name: name}
}

// freePort returns a loopback host:port that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func getOK(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing of it is read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}
