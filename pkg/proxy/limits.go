package proxy

import (
	"fmt"
	"time"
)

// Limits bound the connections of the proxy.
type Limits struct {
	// MaxConnections is the maximum number of open connections on all ports together.
	MaxConnections int
	// Handshake is the timeout of a TLS handshake, and of the bytes before it.
	Handshake time.Duration
	// FirstByte is the time for which a port that allows plaintext waits for the client's first byte.
	FirstByte time.Duration
	// Idle is the time after which an idle connection is closed; 0: never.
	Idle time.Duration
	// Drain is the time for which connections may continue after the proxy is stopped.
	Drain time.Duration
}

// DefaultLimits returns the defaults of the flags. MaxConnections is 0: see Connections.
func DefaultLimits() Limits {
	return Limits{Handshake: 10 * time.Second, FirstByte: 3 * time.Second, Idle: time.Hour, Drain: 30 * time.Second}
}

// Validate returns an error that names the invalid flag.
func (l Limits) Validate() error {
	if l.MaxConnections < 0 {
		return fmt.Errorf(`--max-connections: "%d": must be positive, or 0 for as many as memory and file descriptors allow`, l.MaxConnections)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		least time.Duration
	}{
		{"--handshake-timeout", l.Handshake, time.Millisecond},
		{"--first-byte-timeout", l.FirstByte, time.Millisecond},
		{"--idle-timeout", l.Idle, 0},
		{"--drain-time", l.Drain, 0},
	} {
		if d.value < d.least {
			return fmt.Errorf("%s: %q: must be at least %s", d.flag, d.value, d.least)
		}
	}
	return nil
}

const (
	// mostConnections is the limit if neither memory nor file descriptors are scarce.
	mostConnections = 65536
	// ownDescriptors are used by the proxy itself: listeners, files, /metrics.
	ownDescriptors = 64
	// OwnMemory is the memory that the proxy needs without connections, with a margin.
	OwnMemory = 14 << 20
	// ConnectionMemory is reserved for each connection. An idle one needs 22 KiB. A client can have 100 KiB kept, and a
	// server 128 KiB, mostly in two buffers of crypto/tls (TestMemoryOfAConnection).
	ConnectionMemory = 136 << 10
	// leastConnections is the smallest limit, regardless of memory.
	leastConnections = 64
)

// Connections returns the maximum number of connections for a process with a limit of file descriptors
// and, if memory is positive, of bytes of memory. It returns flag if that is positive and there are
// enough descriptors. A connection needs two descriptors.
func Connections(flag int, descriptors, memory uint64) int {
	most := max(leastConnections, (int(min(descriptors, 4*mostConnections))-ownDescriptors)/2)
	if flag > 0 {
		return min(flag, most)
	}
	most = min(most, mostConnections)
	if memory > 0 {
		left := int64(min(memory, 1<<50)) - OwnMemory
		most = min(most, max(leastConnections, int(left/ConnectionMemory)))
	}
	return most
}

// Kept is the time for which an idle connection is kept after the program has closed its side. The
// client is expected only to close its side too.
const Kept = 30 * time.Second

// keptAtEnd is the same while the proxy drains.
const keptAtEnd = time.Second

// Unclear reports whether a connection that has been open for the duration, and on which neither side has begun, is
// one that a port for TLS only would have closed.
func (l Limits) Unclear(open time.Duration) bool { return open > l.Handshake }

// KeptForAnswer is the time for which an idle connection is kept after the client has closed its side. It
// waits for an answer, or is gone: that cannot be seen.
const KeptForAnswer = 2 * time.Minute

// Expired reports whether to close a connection that has been idle for the duration still. ended means
// that the program has closed its side, asked that the client has, and draining that the proxy stops.
func (l Limits) Expired(still time.Duration, ended, asked, draining bool) bool {
	switch {
	case ended && draining:
		return still >= keptAtEnd
	case ended && still >= Kept, asked && still >= KeptForAnswer:
		return true
	}
	return l.Idle > 0 && still >= l.Idle
}
