package server

import (
	"context"
	"sync/atomic"
	"time"
)

// lookEvery is the interval at which files are read. A renewal is in use within a second.
const lookEvery = 500 * time.Millisecond

// watched reloads files when they change.
type watched struct {
	load            func() (changed bool, err error)
	loaded          func()      // logs a change
	waiting, failed func(error) // log why nothing can be loaded yet, or why the previous content stays in use

	have    atomic.Bool   // something is loaded
	reloads atomic.Uint64 // successful loads after the first
	failing atomic.Bool   // the files cannot be loaded

	// Used only by the goroutine that calls look:
	lastErr string
	doubt   bool // lastErr is reported only if it occurs again
}

// wait returns true once something is loaded, and false if ctx ends first.
func (w *watched) wait(ctx context.Context) bool {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for w.look(); !w.have.Load(); w.look() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// follow reloads the files until ctx ends.
func (w *watched) follow(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look loads the files if they have changed. If that fails, the previous content stays. The error is
// reported the second time, because files that are replaced one by one do not match for a moment.
func (w *watched) look() {
	changed, err := w.load()
	if err != nil {
		again := err.Error() == w.lastErr
		if again && w.doubt {
			w.doubt = false
			w.failing.Store(true)
			if w.have.Load() {
				w.failed(err)
			} else {
				w.waiting(err)
			}
		} else if !again {
			w.lastErr, w.doubt = err.Error(), true
		}
		return
	}
	w.lastErr, w.doubt = "", false
	w.failing.Store(false)
	if !changed {
		return
	}
	if w.have.Swap(true) {
		w.reloads.Add(1)
	}
	w.loaded()
}
