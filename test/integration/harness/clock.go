package harness

import (
	"sync/atomic"
	"time"
)

// Clock is that of a program which runs in the test's process. It is right until the test sets it: so
// a time is not over before the test has seen what happens within it.
type Clock struct{ ahead atomic.Int64 }

// Now is the real time, and what the clock was set ahead or back.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Set has the clock go on from there.
func (c *Clock) Set(to time.Time) { c.ahead.Store(int64(time.Until(to))) }
