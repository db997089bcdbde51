package controller

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// cacheOf is a cache of these objects, by type, as it is in the rotator.
func cacheOf(tb testing.TB, reads []target.Read, objects map[string][]runtime.Object) cache.Cache {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, corev1.AddToScheme(scheme))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	for _, kind := range []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Service"), trust.BackendTLSPolicy} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	options := cache.Options{Scheme: scheme, Mapper: mapper, HTTPClient: http.DefaultClient, ByObject: map[client.Object]cache.ByObject{}}
	for _, r := range reads {
		options.ByObject[r.Object] = r.By
	}
	options.NewInformer = func(_ toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		all := objects[fmt.Sprintf("%T", example)]
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
			WatchFuncWithContext: func(_ context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewFakeWithChanSize(len(all)+1, false)
				for _, object := range all {
					w.Add(object)
				}
				done := example.DeepCopyObject()
				accessor, err := meta.Accessor(done)
				if err != nil {
					return nil, err
				}
				accessor.SetResourceVersion("1000000")
				accessor.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
				w.Action(watch.Bookmark, done)
				return w, nil
			},
		}, example, resync, indexers)
	}
	c, err := cache.New(&rest.Config{}, options)
	require.NoError(tb, err)
	for _, r := range reads {
		if r.Index != nil {
			require.NoError(tb, c.IndexField(tb.Context(), r.Object, target.IndexRequested, r.Index))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		require.NoError(tb, <-ended)
	})
	require.True(tb, c.WaitForCacheSync(ctx), "it cannot be read before it is started")
	return c
}

// sourceOf is the source of the CA bundle, with a new root.
func sourceOf(tb testing.TB, now time.Time) *corev1.ConfigMap {
	tb.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(tb, err)
	root, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, now.Add(-time.Hour), now.Add(time.Hour))
	require.NoError(tb, err)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAStatusName, UID: "u", ResourceVersion: "7"},
		Data:       map[string]string{api.BundleKey: string(pki.NewBundle(root).PEM())},
	}
}

// statusOf is what decides about the trust status of these targets of one kind.
func statusOf(tb testing.TB, kind target.Kind, source *corev1.ConfigMap, now time.Time, objects map[string][]runtime.Object) *statusReconciler {
	tb.Helper()
	sources := cacheOf(tb, oneConfigMap(api.DefaultNamespace, api.CAStatusName, func(client.Object) {}), map[string][]runtime.Object{fmt.Sprintf("%T", source): {source}})
	r := &statusReconciler{
		kinds: newKinds([]target.Kind{kind}, func() {}), now: func() time.Time { return now },
		key:    types.NamespacedName{Namespace: api.DefaultNamespace, Name: api.TrustStatusName},
		source: sourceReader{sources, api.DefaultNamespace, &trust.Sources{}}, status: sources, state: newTargetState(func() {}),
	}
	r.kinds.watched(kind, cacheOf(tb, kind.Reads(), objects))
	return r
}

// BenchmarkStatus is one look at the ConfigMaps of all namespaces, as it is made for the trust
// status again and again while they are written.
func BenchmarkStatus(b *testing.B) {
	now := time.Now()
	source := sourceOf(b, now)
	for _, n := range []int{500, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			objects := map[string][]runtime.Object{}
			for i := range n {
				namespace := fmt.Sprintf("tenant-%05d", i)
				ns := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: types.UID(namespace), ResourceVersion: "5", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
				ns.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
				objects[fmt.Sprintf("%T", ns)] = append(objects[fmt.Sprintf("%T", ns)], ns)
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: api.BundleName, UID: types.UID(namespace), ResourceVersion: "6",
					ManagedFields: []metav1.ManagedFieldsEntry{{Manager: trust.FieldManager, Operation: "Apply", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:ca.crt":{}}}`)}},
				}, Data: source.Data}
				objects[fmt.Sprintf("%T", cm)] = append(objects[fmt.Sprintf("%T", cm)], cm)
			}
			r := statusOf(b, target.Kinds(false)[0], source, now, objects)
			b.ReportAllocs()
			for b.Loop() {
				s, _, err := r.gather(b.Context())
				require.NoError(b, err)
				d := trust.DecideStatus(s)
				r.awaited = d.Awaited
				require.Equal(b, n, d.Summary.Status.Holding)
			}
		})
	}
}
