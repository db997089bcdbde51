package fair

import "time"

// Line holds the namespaces that wait for something of which the whole cluster has a few, and
// for which each asks by itself, in the order in which they came. Each gets it in a bounded time,
// whatever the others do. A namespace
// waits once, however much it wants: when it was served it leaves, and comes back
// behind all others. The zero Line is empty. It is not safe for concurrent use.
type Line struct {
	entries map[string]entry
	came    uint64
}

type entry struct {
	number uint64 // of its arrival
	asked  time.Time
}

// Ask has the namespace wait, or go on waiting.
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

// Leave has the namespace wait no more.
func (l *Line) Leave(namespace string) { delete(l.entries, namespace) }

// Ahead returns how many namespaces are served before this one, which need not wait
// yet. One that has not asked for longer than lapse is not waited for: it leaves.
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
