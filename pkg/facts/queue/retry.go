package queue

import (
	"math/rand/v2"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Retries of what failed: quickly at first, since most failures are a write
// that came second, and never less than once a minute.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// retries is how long a request waits that failed: twice as long each time, and
// by chance up to half of that less, so that ten thousand that failed together do
// not come back together.
type retries struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	chance func() float64 // in [0,1)
}

// Retries is a controller.Options.RateLimiter.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return newRetries(firstRetry, lastRetry)
}

func newRetries(first, last time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return retries{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, last), rand.Float64}
}

func (r retries) When(item reconcile.Request) time.Duration {
	return limit.Jitter(r.TypedRateLimiter.When(item), r.chance())
}
