package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of reviews. Whoever reaches the webhook's port can send them.
const (
	// maxValues is about how many values the JSON of a review may have. A pod with a hundred containers
	// of fifty variables has 15 000.
	maxValues = 30_000
	// perValue is the most bytes that a value becomes: a container without fields.
	perValue = 2 << 10
	// smallValues is the most values of a small review: 32 KiB of an ordinary pod have as many.
	smallValues = 2 << 10
	// maxLarge and maxSmall are the most bytes of all pods of large reviews, and of small ones, that are decoded
	// at the same time. Each has its own, so that small ones do not wait for large ones. One review of maxValues
	// is within maxLarge.
	maxLarge = 60 << 20
	maxSmall = 12 << 20
	// maxReceived is the most bytes of all reviews that are received and not answered, without the first
	// uncounted bytes of each: an ordinary review has fewer. What is received is copied up to four times.
	maxReceived = 16 << 20
	uncounted   = 32 << 10
	// maxWait is how long a pod waits for others. The API server waits 5 s for the webhook.
	maxWait = time.Second
)

// errTooMany is why a review is not answered that may be sent again.
var errTooMany = errors.New("the webhook has too many reviews at the same time")

// memory is what all reviews of one moment take.
type memory struct {
	received     atomic.Int64
	large, small *semaphore.Weighted // of what is decoded
}

func newMemory() *memory {
	return &memory{large: semaphore.NewWeighted(maxLarge), small: semaphore.NewWeighted(maxSmall)}
}

// body is that of a review. Three bytes of JSON can be a container, which has hundreds once it is decoded.
// YAML, which controller-runtime would take too, costs a hundred times its length. So reading fails where
// there are too many values, or where no object begins.
type body struct {
	io.ReadCloser
	memory        *memory
	length        int64
	values        int64
	text, escaped bool // whether the next byte is in a string, and after a backslash
	tooMany       bool // whether others took the memory
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		switch {
		case b.escaped:
			b.escaped = false
		case b.text:
			b.text, b.escaped = c != '"', c == '\\'
		case b.values == 0 && c > ' ' && c != '{':
			return n, errors.New("the review is no JSON object")
		case c == '"':
			b.text = true
		case c == '{', c == '[', c == ',':
			b.values++
		}
	}
	before := b.counted()
	b.length += int64(n)
	if more := b.counted() - before; more > 0 && b.memory.received.Add(more) > maxReceived {
		b.tooMany = true
		return n, errTooMany
	}
	if b.values > maxValues {
		return n, fmt.Errorf("the review has more than %d values", maxValues)
	}
	return n, err
}

func (b *body) counted() int64 { return max(0, b.length-uncounted) }

// decoding waits until there is memory for what the body is decoded to. done gives it back. The caller does not
// hold it while it reads Services, so that nobody waits for long.
func (b *body) decoding(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	share := b.memory.large
	if b.values <= smallValues {
		share = b.memory.small
	}
	if share.Acquire(ctx, b.values*perValue) != nil {
		b.tooMany = true
		return nil, errTooMany
	}
	return func() { share.Release(b.values * perValue) }, nil
}

// answered gives back what was received.
func (b *body) answered() { b.memory.received.Add(-b.counted()) }
