package fairqueue

import "time"

// Line is a queue of namespaces that wait for a scarce resource of the cluster, in the order of their first
// request. A namespace has one place, regardless of the number of its requests. Once served, it leaves, and
// a new request puts it behind all others, so that each is served in a bounded time. The zero Line is empty.
// It is not safe for concurrent use.
type Line struct {
	entries map[string]entry
	came    uint64
}

type entry struct {
	number uint64 // of its arrival
	asked  time.Time
}

// Ask adds the namespace, or renews its request.
func (l *Line) Ask(namespace string, now time.Time) {
	e, waits := l.entries[namespace]
	if !waits {
		l.came++
		e.number = l.came
	}
	if l.entries == nil {
		l.entries = map[string]entry{}
	}
	e.asked = now
	l.entries[namespace] = e
}

// Leave removes the namespace.
func (l *Line) Leave(namespace string) { delete(l.entries, namespace) }

// Ahead returns the number of namespaces that are served before this one, which need not be in the line yet. It
// removes other namespaces whose last request is longer ago than lapse.
func (l *Line) Ahead(namespace string, now time.Time, lapse time.Duration) int {
	own, waits := l.entries[namespace]
	ahead := 0
	for other, e := range l.entries {
		switch {
		case other == namespace:
		case now.Sub(e.asked) > lapse:
			delete(l.entries, other)
		case !waits || e.number < own.number:
			ahead++
		}
	}
	return ahead
}
