// Package pages lists objects in pages, so that neither the API server nor the plugin holds all of them as JSON at once.
package pages

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// Lister is a client of client-go for one kind, as CoreV1().Pods("shop").
type Lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
}

// Each calls visit with each object that the client lists. T is the type of these objects.
func Each[C Lister[L], L, T runtime.Object](ctx context.Context, client C, opts metav1.ListOptions, visit func(T)) error {
	list := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, opts)
	})
	return list.EachListItem(ctx, opts, func(obj runtime.Object) error {
		o, ok := obj.(T)
		if !ok {
			return fmt.Errorf("a list of %T has a %T", o, obj)
		}
		visit(o)
		return nil
	})
}
