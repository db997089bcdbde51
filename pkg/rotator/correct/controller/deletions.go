package controller

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/servingcert/servingcert/pkg/fair"
)

// lapse is how long a namespace may go without asking before its turn is not waited for.
const lapse = 10 * soon

// deletions bounds the deletions of pods in the cluster, so many in a second. The
// namespaces in which more are due take turns, one pod each: whoever forges the status of
// many pods delays the others by one of them.
type deletions struct {
	rate    int
	limiter flowcontrol.RateLimiter

	mu   sync.Mutex
	line fair.Line
}

func newDeletions(rate int) *deletions {
	return &deletions{rate: rate, limiter: flowcontrol.NewTokenBucketRateLimiter(float32(rate), rate)}
}

// take returns 0 if a pod of the namespace may be deleted now, and otherwise when the
// namespace is to ask again.
func (d *deletions) take(namespace string, now time.Time) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ahead := d.line.Ahead(namespace, now, lapse)
	if ahead > 0 || !d.limiter.TryAccept() {
		d.line.Ask(namespace, now)
		return min(soon, time.Duration(ahead+1)*time.Second/time.Duration(d.rate))
	}
	d.line.Leave(namespace)
	return 0
}

// leave has the namespace wait no more.
func (d *deletions) leave(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.line.Leave(namespace)
}
