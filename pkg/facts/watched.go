package facts

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sizes of pages. An object has up to 1.5 MiB, and needs several times that while it is decoded.
const (
	maxPage      = 500     // objects
	smallPage    = 4       // objects; a page of at most this number may have any size
	maxPageBytes = 4 << 20 // of a page with more objects than smallPage
)

// Watched lists and watches objects, and strips each page before it requests the next one. If the API server
// can start a watch with the existing objects, the reflector does not list. Otherwise the API server would
// respond to a reflector's list from its watch cache, without pages. So Watched requests the most recent
// state, which is served in pages.
func Watched(objects toolscache.ListerWatcher, strip toolscache.TransformFunc) toolscache.ListerWatcher {
	return &watched{toolscache.ToListerWatcherWithContext(objects), objects, strip}
}

type watched struct {
	toolscache.ListerWatcherWithContext
	objects toolscache.ListerWatcher
	strip   toolscache.TransformFunc
}

// IsWatchListSemanticsUnSupported reports whether the API server, or a fake of it, cannot start a watch with
// the existing objects. client-go requires this name.
func (w *watched) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(w.objects)
}

// List implements toolscache.Lister.
func (w *watched) List(options metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), options)
}

// Watch implements toolscache.Watcher.
func (w *watched) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), options)
}

// ListWithContext lists in pages, and strips each page before it requests the next one.
func (w *watched) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	all := &metainternalversion.List{}
	err := EachPage(ctx, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := w.ListerWatcherWithContext.ListWithContext(ctx, options)
		if err != nil {
			return nil, err
		}
		of, err := meta.ListAccessor(page)
		if err == nil {
			all.ResourceVersion = of.GetResourceVersion()
		}
		return page, err
	}, options, func(object runtime.Object) error {
		stripped, err := w.strip(object)
		if err == nil {
			all.Items = append(all.Items, stripped.(runtime.Object))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// EachPage calls each for all objects that list returns in pages. With the transport of BoundPages, pages of
// large objects are small. each may keep its argument.
func EachPage(ctx context.Context, list toolscache.ListWithContextFunc, options metav1.ListOptions, each func(runtime.Object) error) error {
	options.Limit, options.Continue = maxPage, ""
	for {
		page, err := list(boundPage(ctx, options.Limit), options)
		if errors.Is(err, errLargePage) {
			options.Limit = max(options.Limit/5, smallPage)
			continue
		}
		if err != nil {
			return err
		}
		of, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if err := meta.EachListItemWithAlloc(page, each); err != nil {
			return err
		}
		if options.Continue = of.GetContinue(); options.Continue == "" {
			return nil
		}
		options.Limit = min(2*options.Limit, maxPage)
	}
}

// EachOf is EachPage with a client's List. empty is an empty list of the kind.
func EachOf(ctx context.Context, live client.Reader, empty client.ObjectList, each func(runtime.Object) error, options ...client.ListOption) error {
	return EachPage(ctx, func(ctx context.Context, part metav1.ListOptions) (runtime.Object, error) {
		list := empty.DeepCopyObject().(client.ObjectList)
		err := live.List(ctx, list, append(slices.Clone(options), client.Limit(part.Limit), client.Continue(part.Continue))...)
		return list, err
	}, metav1.ListOptions{}, each)
}

// errLargePage is returned for a page of more than maxPageBytes.
var errLargePage = errors.New("the page is too large")

type pageKey struct{}

func boundPage(ctx context.Context, objects int64) context.Context {
	if objects <= smallPage {
		return ctx
	}
	return context.WithValue(ctx, pageKey{}, true)
}

// BoundPages is for rest.Config.Wrap. Reading the response to a list of EachPage fails once the response is
// larger than maxPageBytes.
func BoundPages(next http.RoundTripper) http.RoundTripper { return boundedPages{next} }

type boundedPages struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b boundedPages) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.Context().Value(pageKey{}) != nil {
		response.Body = &boundedBody{response.Body, maxPageBytes}
	}
	return response, err
}

// WrappedRoundTripper implements RoundTripperWrapper of apimachinery's net package.
func (b boundedPages) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errLargePage
	}
	return n, err
}

// Paged returns the options with informers that list and watch through Watched, for each kind of ByObject with a
// Transform.
func Paged(o cache.Options) cache.Options {
	o.NewInformer = func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		for kind, by := range o.ByObject {
			if by.Transform != nil && isOf(object, kind) {
				lw = Watched(lw, by.Transform)
				break
			}
		}
		return toolscache.NewSharedIndexInformer(lw, object, resync, indexers)
	}
	return o
}

// isOf reports whether an object, or its metadata, is of the kind.
func isOf(object, kind runtime.Object) bool {
	return reflect.TypeOf(object) == reflect.TypeOf(kind) && object.GetObjectKind().GroupVersionKind().Kind == kind.GetObjectKind().GroupVersionKind().Kind
}
