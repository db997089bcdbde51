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

// registry has the open connections: those that are not established, oldest first, those whose client has ended its
// side, and the others. A connection is established once the TLS handshake is completed, or data arrived in plaintext,
// and the upstream is dialled.
type registry struct {
	most    int
	bothWay bool // there are ports of both directions

	mu        sync.Mutex
	waiting   [directions]*list.List
	answering [directions]*list.List // established, and the client has ended its side
	serving   *list.List
	open      [directions]int // number of connections in the lists
	ending    int             // evicted connections that still run
	fewer     sync.Cond       // ending has become less
}

func (r *registry) init() {
	for d := range r.waiting {
		r.waiting[d], r.answering[d] = list.New(), list.New()
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

// take removes and returns a victim, or nil: of the direction with more connections, or if that has none, of the other.
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

// oldest removes and returns the victim of a direction, or nil. Of the pod's own clients, that is the one that has ended
// its side first, since it may be gone: others must not wait for its server. Outside, anyone can open connections: there
// it is the one that has waited longest to be established, so that a flood closes itself first.
func (r *registry) oldest(d direction) *conn {
	if d == out {
		return r.first(r.answering[d], r.waiting[d])
	}
	return r.first(r.waiting[d], r.answering[d])
}

// first removes and returns the first connection of the first list that has one, or nil.
func (r *registry) first(lists ...*list.List) *conn {
	for _, l := range lists {
		front := l.Front()
		if front == nil {
			continue
		}
		c := l.Remove(front).(*conn)
		c.list = nil
		r.open[c.port.direction()]--
		r.ending++
		return c
	}
	return nil
}

// abandon removes and returns a connection that is not established, or nil.
func (r *registry) abandon() *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first(r.waiting[in], r.waiting[out])
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

// asked marks an established connection as one whose client has ended its side.
func (r *registry) asked(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.list != r.serving {
		return
	}
	r.serving.Remove(c.element)
	c.list = r.answering[c.port.direction()]
	c.element = c.list.PushBack(c)
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
	return inOrder(r.waiting[in], r.waiting[out], r.answering[in], r.answering[out], r.serving)
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
