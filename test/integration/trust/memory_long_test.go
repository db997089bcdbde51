//go:build long

package trust

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// heap is what is in use.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what a first one finalized
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// All ConfigMaps of a cluster are watched for the sake of the few that are
// annotated: what is in the others is not kept.
func TestOtherConfigMapsCostNothing(t *testing.T) {
	const (
		many    = 150
		size    = 500_000
		allowed = 8 << 20 // a tenth of what they hold
	)
	bundle := newBundle(t)
	setSource(t, bundle)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "big-"}}
	create(t, ns)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range many {
		group.Go(func() error {
			return admin.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: fmt.Sprintf("big-%d", i), Annotations: map[string]string{"note": strings.Repeat("n", 10_000)}},
				Data:       map[string]string{"big": strings.Repeat("x", size), api.BundleKey: "theirs"},
			})
		})
	}
	assert.NoError(t, group.Wait())
	t.Cleanup(func() {
		var group errgroup.Group
		group.SetLimit(8)
		for i := range many {
			group.Go(func() error {
				remove(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: fmt.Sprintf("big-%d", i)}})
				return nil
			})
		}
		assert.NoError(t, group.Wait())
	})

	before := heap()
	startRotator(t)
	cm := newConfigMap(t, annotation(), nil) // of the same watch, after them
	dataIs(t, cm, map[string]string{api.BundleKey: bundle})
	passed(t, bundle)
	assert.Less(t, int64(heap())-int64(before), int64(allowed))
}
