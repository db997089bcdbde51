package proxy

import (
	"fmt"
	"time"
)

// Limits are how much the proxy accepts.
type Limits struct {
	// MaxConnections is how many connections there are at a time, on all ports together.
	MaxConnections int
	// Handshake is how long a TLS handshake may take, and the bytes before it.
	Handshake time.Duration
	// FirstByte is how long a port that allows plaintext waits for the client to speak first.
	FirstByte time.Duration
	// Idle is how long a connection is kept on which nothing moves; 0: as long as its ends want.
	Idle time.Duration
	// Drain is how long connections may go on once the proxy is told to stop.
	Drain time.Duration
}

// DefaultLimits returns the defaults of the flags. MaxConnections is 0: see Connections.
func DefaultLimits() Limits {
	return Limits{Handshake: 10 * time.Second, FirstByte: 3 * time.Second, Idle: time.Hour, Drain: 30 * time.Second}
}

// Validate returns an error that names the flag.
func (l Limits) Validate() error {
	if l.MaxConnections < 0 {
		return fmt.Errorf(`--max-connections: "%d": must be positive, or 0: as many as there are memory and file descriptors for`, l.MaxConnections)
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
	// mostConnections is the limit where neither memory nor file descriptors are scarce.
	mostConnections = 65536
	// ownDescriptors are used by the proxy itself: listeners, files, /metrics.
	ownDescriptors = 64
	// ownMemory is what the proxy needs without connections, with some room.
	ownMemory = 14 << 20
	// connectionMemory is set aside for each: an idle one needs 22 KiB, and one of which neither end
	// reads 52.
	connectionMemory = 56 << 10
	// leastConnections is the limit however little memory there is.
	leastConnections = 64
)

// Connections returns the limit of connections for a process that may open so many file
// descriptors and, if memory is positive, may use so many bytes: flag, if it is positive and there
// are descriptors for it. A connection needs two descriptors.
func Connections(flag int, descriptors, memory uint64) int {
	most := max(leastConnections, (int(min(descriptors, 4*mostConnections))-ownDescriptors)/2)
	if flag > 0 {
		return min(flag, most)
	}
	most = min(most, mostConnections)
	if memory > 0 {
		left := int64(min(memory, 1<<50)) - ownMemory
		most = min(most, max(leastConnections, int(left/connectionMemory)))
	}
	return most
}

// Kept is how long a connection whose program has ended its side is kept for what the client still
// does: its answer to the end is all that is expected.
const Kept = 30 * time.Second

// keptAtEnd is the same once the proxy was told to stop.
const keptAtEnd = time.Second

// Expired reports whether a connection on which nothing moved for so long is closed. ended: the
// program has ended its side. draining: the proxy was told to stop.
func (l Limits) Expired(still time.Duration, ended, draining bool) bool {
	switch {
	case ended && draining:
		return still >= keptAtEnd
	case ended:
		return still >= Kept || l.Idle > 0 && still >= l.Idle
	}
	return l.Idle > 0 && still >= l.Idle
}
