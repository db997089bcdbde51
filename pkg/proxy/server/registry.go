package server

import (
	"container/list"
	"sync"
)

// maxEnding is the part of registry.most, one eighth, that evicted connections which still run may add.
const maxEnding = 8

// direction is that of the connections of a port.
type direction int

const (
	in         direction = iota // from clients outside to the program
	out                         // from the pod's programs to Services
	directions = iota
)

// keptFor is the part of registry.most, a quarter, that connections in the other direction cannot take: clients outside
// must not prevent the program from connecting to its database.
const keptFor = 4

// registry has the open connections: those that are not established, oldest first, and the others. A connection is
// established once the TLS handshake is completed, or data arrived in plaintext, and the upstream is dialled.
type registry struct {
	most    int
	bothWay bool // there are ports of both directions

	mu      sync.Mutex
	waiting [directions]*list.List
	serving *list.List
	open    [directions]int // number of waiting and serving connections
	ending  int             // evicted connections that still run
	fewer   sync.Cond       // ending has become less
}

func (r *registry) init() {
	for d := range r.waiting {
		r.waiting[d] = list.New()
	}
	r.serving = list.New()
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
	d, share := c.port.direction(), r.most
	if r.bothWay {
		share -= r.most / keptFor
	}
	switch {
	case r.open[d] >= share:
		if victim = r.oldest(d); victim == nil {
			return nil, false
		}
	case r.open[in]+r.open[out] >= r.most:
		if victim = r.take(); victim == nil {
			return nil, false
		}
	}
	c.element, c.list = r.waiting[d].PushBack(c), r.waiting[d]
	r.open[d]++
	return victim, true
}

// take removes and returns a connection that is not established, or nil: the oldest of the direction with more
// connections, or if that has none, of the other.
func (r *registry) take() *conn {
	first := in
	if r.open[out] > r.open[in] {
		first = out
	}
	if c := r.oldest(first); c != nil {
		return c
	}
	return r.oldest(directions - 1 - first)
}

// oldest removes and returns the connection of a direction that has waited longest, or nil.
func (r *registry) oldest(d direction) *conn {
	front := r.waiting[d].Front()
	if front == nil {
		return nil
	}
	c := r.waiting[d].Remove(front).(*conn)
	c.list = nil
	r.open[d]--
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
	d := c.port.direction()
	if c.list != r.waiting[d] {
		return false
	}
	r.waiting[d].Remove(c.element)
	c.element, c.list = r.serving.PushBack(c), r.serving
	return true
}

// remove removes a connection that has ended. It is called once for each.
func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.list != nil {
		c.list.Remove(c.element)
		r.open[c.port.direction()]--
		return
	}
	r.ending--
	r.fewer.Broadcast()
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[in] + r.open[out]
}

func (r *registry) all() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return inOrder(r.waiting[in], r.waiting[out], r.serving)
}

// notEstablished returns the connections of a direction that are not established, oldest first.
func (r *registry) notEstablished(d direction) []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return inOrder(r.waiting[d])
}

func inOrder(lists ...*list.List) []*conn {
	n := 0
	for _, l := range lists {
		n += l.Len()
	}
	all := make([]*conn, 0, n)
	for _, l := range lists {
		for e := l.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value.(*conn))
		}
	}
	return all
}
