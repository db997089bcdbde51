package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// prober finds out whether objects can be listed and watched, by doing it: that works
// with any authorizer.
type prober struct {
	live   client.WithWatch
	scheme *runtime.Scheme
}

// findServed returns the newest version of the kind that is served.
// trust.KindStarting means that the API server gave no conclusive answer.
func findServed(ctx context.Context, k target.Kind, probe func(context.Context, target.Kind) error) (target.Kind, trust.KindState, string) {
	for {
		err := probe(ctx, k)
		state, message := kindStateOf(err)
		if state != trust.KindAbsent || k.Older == nil {
			return k, state, message
		}
		k = *k.Older
	}
}

// kindStateOf returns the state of a kind, by the error of its probe, and a message for people.
func kindStateOf(err error) (trust.KindState, string) {
	switch {
	case err == nil:
		return trust.KindWatched, ""
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return trust.KindAbsent, err.Error()
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return trust.KindRefused, err.Error()
	}
	return trust.KindStarting, err.Error()
}

func (p prober) probe(ctx context.Context, reads []target.Read) error {
	for _, r := range reads {
		gvk, err := apiutil.GVKForObject(r.Object, p.scheme)
		if err != nil {
			return err
		}
		if err := p.readable(ctx, gvk, r); err != nil {
			return err
		}
	}
	return nil
}

// readable lists the metadata of one object and starts a watch at the
// resourceVersion of that list, so that no object is sent again.
func (p prober) readable(ctx context.Context, gvk schema.GroupVersionKind, r target.Read) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	selected := &client.ListOptions{LabelSelector: r.By.Label, FieldSelector: r.By.Field, Limit: 1} //nolint:forbidigo // one object
	if err := p.live.List(ctx, list, selected); err != nil {
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	selected.Limit = 0
	selected.Raw = &metav1.ListOptions{ResourceVersion: list.ResourceVersion}
	watch, err := p.live.Watch(ctx, list, selected)
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	watch.Stop()
	return nil
}
