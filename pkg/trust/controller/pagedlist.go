package controller

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// pageSize is how many objects are in memory before they are stripped. An object has
// up to 1 MiB, and takes several times that while it is decoded.
const pageSize = 20

// listPaged lists in pages and strips each before it asks for the next.
//
// Where the API server starts a watch with the existing objects, nothing is listed.
// Others answer a reflector's list from their watch cache, which does not page: all
// ConfigMaps of a cluster, with all their data, would be in memory at once. So this
// requests the most recent state, which is served in pages.
func listPaged(ctx context.Context, list toolscache.ListWithContextFunc, strip toolscache.TransformFunc, options metav1.ListOptions) (runtime.Object, error) {
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	options.Limit, options.Continue = pageSize, ""
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		items, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		return items, meta.EachListItem(items, func(obj runtime.Object) error {
			_, err := strip(obj) // in place
			return err
		})
	}
	all, _, err := pager.New(page).ListWithAlloc(ctx, options)
	return all, err
}

// pagedInformers returns a constructor of informers that list objects of r's type in
// pages, and other types as usual.
func pagedInformers(r target.Read) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if reflect.TypeOf(obj) != reflect.TypeOf(r.Object) {
			return toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)
		}
		whole := toolscache.ToListerWatcherWithContext(lw)
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return listPaged(ctx, whole.ListWithContext, r.By.Transform, options)
			},
			WatchFuncWithContext: whole.WatchWithContext,
		}, obj, resync, indexers)
	}
}
