package server

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// setBy returns what time.Now would return instead of now if the machine's clock had been set forward by that much:
// the wall clock differs, and the monotonic reading does not. It requires the layout of a time.Time: from bit 30
// on, its first word counts seconds.
func setBy(now time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&now)) += uint64(by/time.Second) << 30
	return now
}

// Setting the machine's clock neither closes connections nor keeps idle ones.
func TestTheClockIsSet(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		require.Equal(t, by, time.Duration(setBy(now, by).UnixNano()-now.UnixNano()))
		require.Zero(t, setBy(now, by).Sub(now))
	}
	var passed, set atomic.Int64
	w := start(t, program(t, echo), func(c *Config) {
		c.Clock = func() time.Time {
			return setBy(time.Now().Add(time.Duration(passed.Load())), time.Duration(set.Load()))
		}
	})
	clients := []net.Conn{w.dial(both), w.tls(strict)}
	for _, c := range clients {
		send(t, c, "ping")
	}
	set.Store(int64(24 * time.Hour))
	w.sweepOnce(false)
	for _, c := range clients {
		send(t, c, "ping")
	}
	set.Store(int64(-24 * time.Hour))
	passed.Store(int64(w.cfg.Limits.Idle))
	w.sweepOnce(false)
	for _, c := range clients {
		_, err := io.ReadAll(c)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
}
