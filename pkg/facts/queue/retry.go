package queue

import (
	"math/rand/v2"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Delays of retries. The first is short, because most failures are write conflicts.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// retries is an exponential backoff. A random part of up to half of each delay is subtracted, so that requests
// that failed together are not retried together.
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
