package admission

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// inbox bounds the memory of the reviews that were received and are not answered. The API
// server sends a review in some milliseconds; others may start many and never finish. So what
// counts is what was received, not what was announced, and when there is no place, the
// reviews that have been read for longest are cut off.
type inbox struct {
	mu      sync.Mutex
	size    int64
	free    int64
	reading []*body // the oldest first
}

func newInbox(size int64) *inbox { return &inbox{size: size, free: size} }

// body is what was received of one review.
type body struct {
	inbox *inbox
	held  int64
	cut   bool
	end   func() // ends a read that waits
	// first is the buffer with what was received, or nil. A review that is longer than it
	// is in another.
	first *[]byte
}

// open begins to read a review. close must be called once it is answered. end is called,
// maybe by another goroutine, if the review is cut off.
func (in *inbox) open(end func()) *body {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := &body{inbox: in, end: end}
	in.reading = append(in.reading, b)
	return b
}

// take counts n bytes, which are about to be allocated.
func (b *body) take(n int64) error {
	in := b.inbox
	in.mu.Lock()
	defer in.mu.Unlock()
	for !b.cut && in.free < n {
		oldest := in.reading[0] // b is one of them
		oldest.cut = true
		in.forget(oldest)
		oldest.end()
	}
	if b.cut {
		return b.err()
	}
	in.free -= n
	b.held += n
	return nil
}

// received ends the reading: the review is not cut off any more. It is an error if it was.
func (b *body) received() error {
	b.inbox.mu.Lock()
	defer b.inbox.mu.Unlock()
	b.inbox.notReading(b)
	return b.err()
}

// close gives back what the review took. What was received must not be used any more.
func (b *body) close() {
	b.inbox.mu.Lock()
	b.inbox.forget(b)
	b.inbox.mu.Unlock()
	if b.first != nil {
		buffers.Put(b.first)
		b.first = nil
	}
}

// err returns why the review was cut off, or nil.
func (b *body) err() error {
	if !b.cut {
		return nil
	}
	return &tooManyError{fmt.Sprintf("the webhook receives reviews of %d bytes together, and this one was being read for longest", b.inbox.size)}
}

// forget gives the place of a review back. The caller holds in.mu.
func (in *inbox) forget(b *body) {
	in.notReading(b)
	in.free += b.held
	b.held = 0
}

func (in *inbox) notReading(b *body) {
	if i := slices.Index(in.reading, b); i >= 0 {
		in.reading = slices.Delete(in.reading, i, i+1)
	}
}

// tooManyError is why a review is not answered that may be sent again.
type tooManyError struct{ why string }

func (e *tooManyError) Error() string { return "too many reviews at the same time: " + e.why }

// endRead returns a function that has reads of the request fail.
func endRead(w http.ResponseWriter) func() {
	return func() {
		// A connection that knows no deadline is one of a test. Its next read is the last.
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}
}

const (
	// firstRead is how many bytes are allocated before something was received: an ordinary
	// review is not longer.
	firstRead = 8 << 10
	// growth is how many times as much is allocated then, as that was all received. What
	// is copied is little beside the rest.
	growth = 16
)

// buffers are for what is received first and for the answer. They are as long as an ordinary
// review; what needs more is not kept.
var buffers = sync.Pool{New: func() any {
	buffer := make([]byte, firstRead)
	return &buffer
}}

// readAll is io.ReadAll, counted by b, into a buffer that grows with what is received up
// to the announced length, -1 if none is, but at most to maxReview and one byte. What it
// returns may be used until b is closed.
func readAll(from io.Reader, announced int64, b *body) ([]byte, error) {
	most := int64(maxReview + 1)
	if announced >= 0 {
		most = min(most, announced+1) // with the byte that shows the end
	}
	if err := b.take(firstRead); err != nil {
		return nil, err
	}
	b.first = buffers.Get().(*[]byte)
	data := (*b.first)[:0]
	for {
		if len(data) == cap(data) {
			larger := min(most, growth*int64(cap(data)))
			if larger <= int64(cap(data)) {
				larger = growth * int64(cap(data)) // the length was not as announced
			}
			if err := b.take(larger - int64(cap(data))); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, larger), data...)
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, b.received()
		}
		if err != nil {
			return nil, firstOf(b.received(), err)
		}
	}
}

// firstOf returns why a read failed: that it was cut off says more.
func firstOf(cut, read error) error {
	if cut != nil {
		return cut
	}
	return read
}
