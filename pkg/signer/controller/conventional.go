package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// conventional publishes which opted-in namespaces have a conventional Secret. Only the signer
// may read unmanaged Secrets; the rotator, which reads pods, may read no Secret.
type conventional struct {
	client    client.Client
	live      client.Reader
	secrets   client.Reader // metadata of the conventional Secrets alone
	opted     client.Reader // metadata of the opted-in Namespaces
	namespace string
}

// conventionalAgain is the interval at which the ConfigMap, which is not watched, is
// checked without a change.
const conventionalAgain = 10 * time.Minute

// addConventional adds the publisher to the manager. It collects changes for the delay. It has
// its own cache, since the manager's holds Secrets by another selector.
func addConventional(mgr manager.Manager, namespace string, delay time.Duration) error {
	secrets, err := facts.AddCache(mgr, facts.Paged(cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			facts.Metadata("Secret"): {
				Field:     fields.SelectorFromSet(fields.Set{"metadata.name": api.ConventionalSecretName, "type": string(corev1.SecretTypeTLS)}),
				Label:     api.NotManaged(),
				Transform: facts.KeepIdentity,
			},
		},
	}), facts.Metadata("Secret"))
	if err != nil {
		return fmt.Errorf("cache of conventional Secrets: %w", err)
	}
	return facts.AddController(mgr, "conventional-secrets", controller.Options{
		Reconciler: &conventional{client: mgr.GetClient(), live: mgr.GetAPIReader(), secrets: secrets, opted: mgr.GetCache(), namespace: namespace},
	},
		source.Kind[client.Object](secrets, facts.Metadata("Secret"), lookAfter(delay)),
		source.Kind[client.Object](mgr.GetCache(), facts.Metadata("Namespace"), lookAfter(delay)),
	)
}

// lookAfter enqueues the controller's only request, after the delay, when an object was added
// or deleted.
func lookAfter(delay time.Duration) handler.EventHandler {
	soon := func(q facts.Queue) { q.AddAfter(reconcile.Request{}, delay) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q facts.Queue) { soon(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q facts.Queue) { soon(q) },
	}
}

// Reconcile publishes the namespaces with a conventional Secret.
func (c *conventional) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	where, err := c.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.publish(ctx, where); err != nil {
		return reconcile.Result{}, fmt.Errorf("ConfigMap %s: %w", api.ConventionalStatusName, err)
	}
	return reconcile.Result{RequeueAfter: conventionalAgain}, nil
}

// gather returns the namespaces in the format in which they are published.
func (c *conventional) gather(ctx context.Context) (string, error) {
	list := func(r client.Reader, kind string) ([]metav1.PartialObjectMetadata, error) {
		var l metav1.PartialObjectMetadataList
		l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := r.List(ctx, &l); err != nil {
			return nil, fmt.Errorf("list metadata of %ss: %w", kind, err)
		}
		return l.Items, nil
	}
	namespaces, err := list(c.opted, "Namespace")
	if err != nil {
		return "", err
	}
	secrets, err := list(c.secrets, "Secret")
	if err != nil {
		return "", err
	}
	optedIn := map[string]bool{}
	for i := range namespaces {
		optedIn[namespaces[i].Name] = true
	}
	var where []string
	for i := range secrets {
		if optedIn[secrets[i].Namespace] {
			where = append(where, secrets[i].Namespace)
		}
	}
	return api.FormatNamespaces(where), nil
}

// publish writes the namespaces to the ConfigMap, if they changed.
func (c *conventional) publish(ctx context.Context, where string) error {
	var cm corev1.ConfigMap
	err := c.live.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: api.ConventionalStatusName}, &cm)
	switch {
	case apierrors.IsNotFound(err) && where == "":
		return nil
	case apierrors.IsNotFound(err):
		// By apply: RBAC can then restrict the create to this name.
		made := applycorev1.ConfigMap(api.ConventionalStatusName, c.namespace).WithData(map[string]string{api.ConventionalNamespacesKey: where})
		return c.client.Apply(ctx, made, client.FieldOwner("servingcert-signer"))
	case err != nil:
		return err
	case cm.Data[api.ConventionalNamespacesKey] == where:
		return nil
	}
	cm.Data = map[string]string{api.ConventionalNamespacesKey: where}
	return c.client.Update(ctx, &cm)
}
