package server

import (
	"container/list"
	"sync"
)

// maxEnding is the part of registry.most, one eighth, that evicted connections which still run may add.
const maxEnding = 8

// registry has the open connections: those that are not established, oldest first, and the others. A connection is
// established once the TLS handshake is completed, or data arrived in plaintext, and the program is dialled.
type registry struct {
	most int

	mu      sync.Mutex
	waiting *list.List
	serving *list.List
	ending  int       // evicted connections that still run
	fewer   sync.Cond // ending has become less
}

func (r *registry) init() {
	r.waiting, r.serving = list.New(), list.New()
	r.fewer.L = &r.mu
}

// wait waits until few evicted connections still run. They end by themselves, but on a busy processor many
// others could be accepted before.
func (r *registry) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.ending > r.most/maxEnding {
		r.fewer.Wait()
	}
}

// add adds a connection that has sent nothing yet. If there are too many, it returns a victim, which the
// caller must close. If there is none, ok is false and c was not added.
func (r *registry) add(c *conn) (victim *conn, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting.Len()+r.serving.Len() >= r.most {
		if victim = r.take(); victim == nil {
			return nil, false
		}
	}
	c.element, c.list = r.waiting.PushBack(c), r.waiting
	return victim, true
}

// take removes and returns the connection that has waited longest, or nil.
func (r *registry) take() *conn {
	front := r.waiting.Front()
	if front == nil {
		return nil
	}
	c := r.waiting.Remove(front).(*conn)
	c.list = nil
	r.ending++
	return c
}

// evict is take with the lock.
func (r *registry) evict() *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take()
}

// established marks a connection as no longer waiting. It returns false if the connection was removed.
func (r *registry) established(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.list != r.waiting {
		return false
	}
	r.waiting.Remove(c.element)
	c.element, c.list = r.serving.PushBack(c), r.serving
	return true
}

// remove removes a connection that has ended. It is called once for each.
func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.list != nil {
		c.list.Remove(c.element)
		return
	}
	r.ending--
	r.fewer.Broadcast()
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting.Len() + r.serving.Len()
}

func (r *registry) all() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*conn, 0, r.waiting.Len()+r.serving.Len())
	for _, l := range []*list.List{r.waiting, r.serving} {
		for e := l.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value.(*conn))
		}
	}
	return all
}
