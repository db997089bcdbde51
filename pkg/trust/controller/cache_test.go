package controller

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
	"github.com/servingcert/servingcert/test/bounded"
)

// listOnly does not support streaming lists, as an API server before 1.34.
type listOnly struct{ *toolscache.ListWatch }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

// An API server that does not stream lists gives all objects of a kind at once, unless it is asked for
// pages of the most recent state. A tenant may have made any number of them.
func TestEveryListIsPaged(t *testing.T) {
	all := [][]target.Read{policyReads(), oneConfigMap(api.DefaultNamespace, api.CAStatusName, func(client.Object) {})}
	for _, kind := range target.Kinds(true) {
		all = append(all, kind.Reads())
	}
	for _, reads := range all {
		options := cacheOptions(reads)
		for _, r := range reads {
			t.Run(fmt.Sprintf("%T %s", r.Object, r.Object.GetObjectKind().GroupVersionKind().Kind), func(t *testing.T) {
				require.NotNil(t, options.NewInformer)
				asked := make(chan metav1.ListOptions)
				ctx, cancel := context.WithCancel(t.Context())
				informer := options.NewInformer(listOnly{&toolscache.ListWatch{
					ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
						select {
						case asked <- o:
						case <-ctx.Done():
						}
						return &metav1.List{}, nil
					},
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
				}}, r.Object, 0, toolscache.Indexers{})
				ended := make(chan bool)
				go func() { defer close(ended); informer.RunWithContext(ctx) }()
				got := <-asked
				cancel()
				<-ended
				assert.Empty(t, got.ResourceVersion, "with one, the API server ignores the limit")
				assert.Positive(t, got.Limit)
			})
		}
	}
}

// A tenant may have any number of policies for one Service. Each look at the Service copies none.
func TestManyPoliciesOfAServiceCostLittle(t *testing.T) {
	const many, most = 500, 500 // bytes for one of them, a sixth of what a copy takes
	service := facts.Metadata("Service")
	service.Namespace, service.Name, service.UID, service.ResourceVersion = "shop", "web", "u", "7"
	objects := map[string][]runtime.Object{fmt.Sprintf("%T", service): {service}}
	for i := range many {
		policy := trust.NewPolicy(service)
		policy.SetName(fmt.Sprint("other-", i))
		policy.SetUID(types.UID(policy.GetName()))
		policy.SetResourceVersion("8")
		objects[fmt.Sprintf("%T", policy)] = append(objects[fmt.Sprintf("%T", policy)], policy)
	}
	r := &policyReconciler{reader: cacheOf(t, policyReads(), objects)}
	key := client.ObjectKeyFromObject(service)
	s, err := r.gather(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, s.Others, many)
	assert.Less(t, bounded.Allocated(func() { _, _ = r.gather(t.Context(), key) }), uint64(many*most*bounded.RaceFactor))
}
