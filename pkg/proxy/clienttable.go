package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// A clientKey is what a client is known by: its identity, or without one its address.
type clientKey struct {
	id      pki.SPIFFEID
	address netip.Addr
	port    string
}

// table has at most MaxClients clients.
type table struct {
	seen    map[clientKey]*Record
	evicted map[string]*evicted // by port
}

// Record is a client, and how many of its connections have not ended.
type Record struct {
	clientKey
	first, last time.Time
	kind        Kind
	reason      Reason

	connections, wouldRefuse, refused uint64

	open    int
	evicted *evicted // that it was added to; nil while the table has it
}

type evicted struct {
	Evicted
	open int
}

func newTable() table {
	return table{seen: map[clientKey]*Record{}, evicted: map[string]*evicted{}}
}

// add returns the record of a client, with one more open connection. If there are too many clients, it
// removes the least recently seen one.
func (t table) add(key clientKey, now time.Time) *Record {
	r := t.seen[key]
	if r == nil {
		if len(t.seen) >= MaxClients {
			t.evict(now)
		}
		r = &Record{clientKey: key, first: now}
		t.seen[key] = r
	}
	r.last = now
	r.open++
	return r
}

func (r *Record) lastSeen(now time.Time) time.Time {
	if r.open > 0 {
		return now
	}
	return r.last
}

func (t table) evict(now time.Time) {
	var oldest *Record
	for _, r := range t.seen {
		if oldest == nil || r.lastSeen(now).Before(oldest.lastSeen(now)) {
			oldest = r
		}
	}
	delete(t.seen, oldest.clientKey)
	f := t.evicted[oldest.port]
	if f == nil {
		f = &evicted{}
		t.evicted[oldest.port] = f
	}
	f.Clients++
	f.open += oldest.open
	if oldest.last.After(f.Last) {
		f.Last = oldest.last
	}
	oldest.evicted = f
}

// sorted returns all clients of the tables, those first that were seen last.
func sorted(now time.Time, tables ...table) []*Record {
	var all []*Record
	for _, t := range tables {
		for _, r := range t.seen {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Record) int {
		return cmp.Or(b.lastSeen(now).Compare(a.lastSeen(now)), a.address.Compare(b.address),
			strings.Compare(a.id.Namespace, b.id.Namespace), strings.Compare(a.id.ServiceAccount, b.id.ServiceAccount), strings.Compare(a.port, b.port))
	})
	return all
}

// list returns the clients that were removed, by port.
func (t table) list(now time.Time) map[string]Evicted {
	if len(t.evicted) == 0 {
		return nil
	}
	out := make(map[string]Evicted, len(t.evicted))
	for port, f := range t.evicted {
		if f.open > 0 {
			f.Last = now
		}
		out[port] = f.Evicted
	}
	return out
}
