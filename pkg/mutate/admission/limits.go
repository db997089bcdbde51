package admission

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of reviews. Whoever reaches the webhook's port can send them.
const (
	// maxReview is the most bytes of a review. The API server accepts requests of up to
	// 3 MiB, and a review of a new pod has one object and some words about it.
	maxReview = 3<<20 + 64<<10
	// maxValues is about how many values the JSON of a review may have: a pod with a
	// hundred containers of fifty variables has 15 000. Values that are a few bytes
	// in JSON can be a hundred times as large once they are decoded.
	maxValues = 30_000
	// maxInFlight is the most bytes of all reviews that are answered at the same time,
	// each with perReview for what it is decoded to.
	maxInFlight = 32 << 20
	perReview   = 1 << 20
	// maxReading is the most bytes of reviews that have been received and are not answered.
	maxReading = 16 << 20
	// maxWait is how long a review waits for others. The API server waits 5 s for the
	// webhook, and tries again when it is told so.
	maxWait = time.Second
)

// room bounds the memory of the reviews that are answered at the same time.
type room struct {
	bytes *semaphore.Weighted
	size  int64
}

func newRoom(size int64) room { return room{semaphore.NewWeighted(size), size} }

// enter waits until there is room for a review of so many bytes. release must be called
// once it is answered.
func (r room) enter(ctx context.Context, length int64) (release func(), err error) {
	release = func() { r.bytes.Release(length + perReview) }
	if r.bytes.TryAcquire(length + perReview) {
		return release, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if r.bytes.Acquire(ctx, length+perReview) != nil {
		return nil, &tooManyError{fmt.Sprintf("the webhook answers reviews of %d bytes together, each counted as %d bytes more than it has", r.size, perReview)}
	}
	return release, nil
}
