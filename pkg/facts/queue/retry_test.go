package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRetriesAreSpread(t *testing.T) {
	item := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web-tls"}}
	limits := newRetries(firstRetry, lastRetry)
	seen := map[time.Duration]bool{}
	for n := range 1000 {
		longest := lastRetry
		if n < 16 {
			longest = min(lastRetry, firstRetry<<n)
		}
		wait := limits.When(item)
		assert.GreaterOrEqual(t, wait, longest/2)
		assert.LessOrEqual(t, wait, longest)
		seen[wait.Truncate(time.Second)] = true
	}
	assert.Greater(t, len(seen), 25, "delays are spread over the thirty seconds before the longest")
	assert.Equal(t, 1000, limits.NumRequeues(item))
	limits.Forget(item)
	assert.LessOrEqual(t, limits.When(item), firstRetry)
}
