package facts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// pages responds like an API server with many ConfigMaps: in pages without a resourceVersion, and otherwise with
// all at once.
func pages(many int, pages *[]*corev1.ConfigMapList) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
		from, _ := strconv.Atoi(options.Continue)
		to := many
		if options.ResourceVersion == "" && options.Limit > 0 {
			to = min(many, from+int(options.Limit))
		}
		list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}}
		if to < many {
			list.Continue = strconv.Itoa(to)
		}
		for i := from; i < to; i++ {
			list.Items = append(list.Items, corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), ResourceVersion: "7"}, Data: map[string]string{"big": "x"},
			})
		}
		*pages = append(*pages, list)
		return list, nil
	}
}

// paged returns a watched that lists by a function.
func paged(list toolscache.ListWithContextFunc, strip toolscache.TransformFunc) *watched {
	return &watched{ListerWatcherWithContext: toolscache.ToListerWatcherWithContext(&toolscache.ListWatch{ListWithContextFunc: list}), strip: strip}
}

func TestListPaged(t *testing.T) {
	strip := func(object any) (any, error) {
		object.(*corev1.ConfigMap).Data = nil
		return object, nil
	}
	for _, many := range []int{0, 1, maxPage, maxPage + 1, 3*maxPage + 3} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			var asked []*corev1.ConfigMapList
			got, err := paged(pages(many, &asked), strip).ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 500})
			require.NoError(t, err)
			assert.Len(t, asked, max(1, (many+maxPage-1)/maxPage))

			items, err := meta.ExtractList(got)
			require.NoError(t, err)
			require.Len(t, items, many)
			for i, item := range items {
				assert.Equal(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), ResourceVersion: "7"}}, item)
			}
			list, err := meta.ListAccessor(got)
			require.NoError(t, err)
			assert.Equal(t, "42", list.GetResourceVersion(), "where the watch continues")
			assert.Empty(t, list.GetContinue())
		})
	}
	t.Run("no answer", func(t *testing.T) {
		fail := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errors.New("away") }
		_, err := paged(fail, strip).ListWithContext(t.Context(), metav1.ListOptions{})
		assert.ErrorContains(t, err, "away")
	})
}

// transport responds in pages, like an API server with a number of objects of one size.
type transport struct {
	objects, size int
	largest       int // page, in bytes read
	asked         []int
}

func (tr *transport) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api/", http.NoBody)
	if err != nil {
		return nil, err
	}
	from, _ := strconv.Atoi(options.Continue)
	to := min(tr.objects, from+int(options.Limit))
	tr.asked = append(tr.asked, to-from)
	answer := http.Response{Body: io.NopCloser(io.LimitReader(endless{}, int64((to-from)*tr.size)))}
	response, err := BoundPages(roundTrip(func() (*http.Response, error) { return &answer, nil })).RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	tr.largest = max(tr.largest, len(body))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	list := &corev1.ConfigMapList{Items: make([]corev1.ConfigMap, to-from)}
	if to < tr.objects {
		list.Continue = strconv.Itoa(to)
	}
	return list, nil
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type roundTrip func() (*http.Response, error)

func (r roundTrip) RoundTrip(*http.Request) (*http.Response, error) { return r() }

// Large objects are requested in small pages.
func TestLargePagesAreNotRead(t *testing.T) {
	for _, tc := range []struct{ objects, size, requests int }{{2000, 1000, 4}, {600, 10_000, 20}, {97, 1_300_000, 80}} {
		tr, got := &transport{objects: tc.objects, size: tc.size}, 0
		require.NoError(t, EachPage(t.Context(), tr.list, metav1.ListOptions{}, func(runtime.Object) error { got++; return nil }))
		assert.Equal(t, tc.objects, got)
		assert.LessOrEqual(t, tr.largest, maxPageBytes+smallPage*1_300_000)
		assert.LessOrEqual(t, len(tr.asked), tc.requests, "%v", tr.asked)
	}
}
