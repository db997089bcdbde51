package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/hack/scenes/invariant"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	// foreignName is that of objects, in every namespace, that are not ours. conflictName is a Service
	// that asks for one of these.
	foreignName, conflictName = "foreign", "conflict"
	// optedOut is a namespace without the label.
	optedOut = "unlabelled"
	// shopNet and evilNet are the second octets of the addresses of the pods of tenants and of the attacker.
	shopNet, evilNet = 5, 6
)

func servingName(i int) string { return fmt.Sprint("serving-", i) }

// populate makes tenants in namespaces, in place of those that are there, and their Services. It waits
// until each has its certificate, and is seen to serve it if it has pods.
func (w *world) populate(ctx context.Context, namespaces ...string) error {
	w.Say("creating %d Services in %d namespaces", w.services, len(namespaces))
	if w.kubelet != nil {
		w.kubelet.Close()
	}
	for _, t := range w.tenants {
		if err := w.Remove(ctx, t); err != nil {
			return err
		}
	}
	w.tenants, w.places = nil, nil
	for _, namespace := range namespaces {
		t, err := w.NewTenant(ctx, namespace)
		if err := errors.Join(err, w.addForeign(ctx, namespace)); err != nil {
			return err
		}
		w.tenants = append(w.tenants, t)
		w.observe(namespace)
	}
	for n := range w.services {
		w.places = append(w.places, place{w.tenants[n%len(w.tenants)], fmt.Sprintf("svc-%03d", n)})
	}
	if err := process.Each(ctx, len(w.places), 8, func(ctx context.Context, n int) error {
		svc := installed.ServiceOf(w.places[n].service)
		if n%10 != 0 { // the others are headless
			svc.Spec.ClusterIP = ""
		}
		return w.places[n].Add(ctx, svc)
	}); err != nil {
		return err
	}
	if w.serving > 0 {
		if err := w.serve(ctx, w.tenants[0]); err != nil {
			return err
		}
	}
	err := installed.Until(ctx, "each Service has its Secret", w.sound)
	if err != nil {
		return err
	}
	w.foreign, err = w.foreigners(ctx)
	return err
}

// serve makes Services of a tenant with pods that serve. The program of the last one reads its
// certificate once, so that it asks to be restarted.
func (w *world) serve(ctx context.Context, t *installed.Tenant) error {
	w.kubelet = t.StartKubelet(shopNet, false)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errLate)
	defer cancel()
	for i := range w.serving + 1 {
		deployment := installed.DeploymentOf(servingName(i), 2, api.OnRotateReload)
		if i == w.serving {
			deployment = installed.DeploymentOf(servingName(i), 1, api.OnRotateRestart)
		}
		if err := errors.Join(t.Add(ctx, installed.ServiceOf(servingName(i))), t.Add(ctx, deployment)); err != nil {
			return err
		}
	}
	for i := range w.serving + 1 {
		if _, err := t.Await(ctx, installed.ServiceOf(servingName(i)), "its pods are not seen to serve", installed.IsServed); err != nil {
			return err
		}
	}
	return nil
}

// addForeign adds to a namespace what servingcert must leave alone.
func (w *world) addForeign(ctx context.Context, namespace string) error {
	named, plain := metav1.ObjectMeta{Name: foreignName}, installed.ServiceOf(foreignName)
	if namespace != optedOut { // there, one that asks is foreign too
		plain.Annotations = nil
	}
	admin := client.NewNamespacedClient(w.Admin, namespace)
	var errs []error
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: named, StringData: map[string]string{"password": "secret"}},
		installed.SecretOf(conflictName+"-tls", nil, []byte("not a certificate"), []byte("not a key")),
		&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{api.BundleKey: "not a bundle"}},
		plain, installed.ServiceOf(conflictName),
	} {
		errs = append(errs, admin.Create(ctx, o))
	}
	return errors.Join(errs...)
}

// foreigners returns the versions of what servingcert must leave alone.
func (w *world) foreigners(ctx context.Context) (map[string]invariant.Version, error) {
	out := map[string]invariant.Version{}
	for _, each := range []string{"Secret " + foreignName, "Secret " + conflictName + "-tls", "ConfigMap " + foreignName, "Service " + foreignName} {
		kind, name, _ := strings.Cut(each, " ")
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := w.Admin.List(ctx, list, client.MatchingFields{"metadata.name": name}); err != nil {
			return nil, err
		}
		for i := range list.Items {
			meta := &list.Items[i].ObjectMeta
			out[kind+" "+meta.Namespace+"/"+meta.Name] = invariant.Version{UID: string(meta.UID), ResourceVersion: meta.ResourceVersion}
		}
	}
	return out, nil
}
