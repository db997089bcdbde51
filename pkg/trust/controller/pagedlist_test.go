package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pages answers as an API server with many ConfigMaps does that pages what is asked
// for at no resourceVersion, and gives all at once otherwise.
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

func TestListPaged(t *testing.T) {
	strip := kindNamed(t, "ConfigMap").Reads()[0].By.Transform
	for _, many := range []int{0, 1, pageSize, pageSize + 1, 5*pageSize + 3} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			var asked []*corev1.ConfigMapList
			got, err := listPaged(t.Context(), pages(many, &asked), strip, metav1.ListOptions{ResourceVersion: "0", Limit: 500})
			require.NoError(t, err)
			assert.Len(t, asked, max(1, (many+pageSize-1)/pageSize))

			items, err := meta.ExtractList(got)
			require.NoError(t, err)
			require.Len(t, items, many)
			for i, item := range items {
				assert.Equal(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), ResourceVersion: "7"}}, item)
			}
			list, err := meta.ListAccessor(got)
			require.NoError(t, err)
			assert.Equal(t, "42", list.GetResourceVersion(), "from where the watch goes on")
			assert.Empty(t, list.GetContinue())
		})
	}
	t.Run("no answer", func(t *testing.T) {
		fail := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errors.New("away") }
		_, err := listPaged(t.Context(), fail, strip, metav1.ListOptions{})
		assert.ErrorContains(t, err, "away")
	})
}
