package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/pkg/api"
)

// shop.yaml is what a user writes.
//
//go:embed shop.yaml
var shopYAML []byte

func inShop(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }

// annotate creates the namespace and the Service, and waits for what follows.
func (d *demo) annotate(ctx context.Context) error {
	objects, err := deploy.Decode(shopYAML)
	if err != nil {
		return fmt.Errorf("shop.yaml: %w", err)
	}
	if err := deploy.ApplyObjects(ctx, d.Admin, fieldOwner, objects[:2]); err != nil {
		return err
	}
	start := time.Now()
	if _, err := installed.Await(ctx, "Secret shop/web-tls", measuring, func(ctx context.Context) error {
		return d.Admin.Get(ctx, inShop("web-tls"), &corev1.Secret{})
	}); err != nil {
		return err
	}
	took := time.Since(start)
	d.measure("from the annotated Service to its Secret shop/web-tls", took)
	d.out.printf("Secret shop/web-tls is there %s after the Service\n", short(took))

	if _, err := installed.Await(ctx, "condition "+api.ConditionReady+" of Service shop/web", measuring, d.isReady); err != nil {
		return err
	}
	ready := api.Condition(d.service, api.ConditionReady)
	d.out.printf("condition %s=%s (%s) after %s:\n", ready.Type, ready.Status, ready.Reason, short(time.Since(start)))
	d.out.printf("  %s\n", ready.Message)

	if _, err := installed.Await(ctx, "ConfigMap shop/"+api.BundleName, measuring, func(ctx context.Context) error {
		return d.Admin.Get(ctx, inShop(api.BundleName), &corev1.ConfigMap{})
	}); err != nil {
		return err
	}
	d.out.printf("ConfigMap shop/%s holds what clients trust\n", api.BundleName)
	return nil
}

// isReady is what kubectl wait --for=condition=servingcert.dev/Ready service/web
// asks. It keeps the Service.
func (d *demo) isReady(ctx context.Context) error {
	service := &corev1.Service{}
	if err := d.Admin.Get(ctx, inShop("web"), service); err != nil {
		return err
	}
	d.service = service
	c := api.Condition(service, api.ConditionReady)
	if c == nil {
		return errors.New("it has no such condition")
	}
	if c.Status != "True" {
		return fmt.Errorf("it is %s: %s: %s", c.Status, c.Reason, c.Message)
	}
	return nil
}

// createDeployment has kube-controller-manager make a pod, and shows what the
// webhook made of it.
func (d *demo) createDeployment(ctx context.Context) error {
	objects, err := deploy.Decode(shopYAML)
	if err != nil {
		return fmt.Errorf("shop.yaml: %w", err)
	}
	if err := deploy.ApplyObjects(ctx, d.Admin, fieldOwner, objects[2:]); err != nil {
		return err
	}
	took, err := installed.Await(ctx, "a pod of Deployment shop/web", measuring, d.findPod)
	if err != nil {
		return errors.Join(err, d.whyNoPod(ctx))
	}
	d.measure("from the Deployment to its injected pod", took)
	deployment := &appsv1.Deployment{}
	if err := d.Admin.Get(ctx, inShop("web"), deployment); err != nil {
		return err
	}
	if d.pod.Labels[api.LabelInjected] != "true" {
		return fmt.Errorf("pod %s was not injected: %s", d.pod.Name, d.pod.Annotations[api.AnnotationStatus])
	}
	lines, err := podDiff(deployment.Spec.Template, d.pod)
	if err != nil {
		return err
	}
	d.out.printf("pod %s is there %s after the Deployment, as the API server stored it (+ was added):\n", d.pod.Name, short(took))
	for _, line := range lines {
		d.out.printf("  %s\n", line)
	}
	return nil
}

func (d *demo) findPod(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := d.Admin.List(ctx, pods, client.InNamespace("shop"), client.MatchingLabels{"app": "web"}); err != nil {
		return err
	}
	if len(pods.Items) == 0 {
		return errors.New("there is none")
	}
	d.pod = &pods.Items[0]
	return nil
}

// whyNoPod finds what the ReplicaSet was told when it tried.
func (d *demo) whyNoPod(ctx context.Context) error {
	events := &corev1.EventList{}
	if err := d.Admin.List(ctx, events, client.InNamespace("shop")); err != nil {
		return err
	}
	var all []error
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning {
			all = append(all, fmt.Errorf("%s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message))
		}
	}
	return errors.Join(all...)
}
