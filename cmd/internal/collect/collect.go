// Package collect has the garbage collector run as seldom as the memory of a process allows.
//
// Go collects when the heap has doubled since the last time. A process that keeps little and
// drops much therefore collects often, however much memory it was given: the signer spent an
// eighth of its time on it. GOMEMLIMIT says how much there is, and by itself only makes the
// collector run more often close to it.
package collect

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Go's own pace: a collection when the heap has grown by as much as is live.
const usual = 100

// share is the part of the memory limit, in percent, up to which the heap may grow without a
// collection. What is left is for stacks, the program itself, what is allocated during
// a collection, and the first list of all objects.
const share = 50

// Seldom lets the heap of this process grow to a share of GOMEMLIMIT before it is collected.
// It does nothing if there is no limit, or if GOGC says what the operator wants.
func Seldom() {
	limit := debug.SetMemoryLimit(-1) // returns it
	if limit == math.MaxInt64 || os.Getenv("GOGC") != "" {
		return
	}
	p := &pacer{goal: uint64(limit) / 100 * share, set: func(percent int) { debug.SetGCPercent(percent) }, percent: usual}
	p.afterEach(live)
}

// pacer sets the pace after each collection, for it counts from what that has left.
type pacer struct {
	goal    uint64 // bytes
	percent int    // that was set last
	set     func(percent int)
}

// afterEach adjusts the pace now and after each collection, without end. A cleanup runs after
// the collection that finds its object unreachable.
func (p *pacer) afterEach(live func() uint64) {
	p.adjust(live())
	type nothing struct{ _ *byte } // with a pointer: tiny objects without one share their memory
	runtime.AddCleanup(new(nothing), func(p *pacer) { p.afterEach(live) }, p)
}

func (p *pacer) adjust(live uint64) {
	if percent := percentFor(live, p.goal); percent != p.percent {
		p.percent = percent
		p.set(percent)
	}
}

// percentFor returns by how much of what is live the heap may grow to reach the goal: never
// less than usual, in steps, since setting it stops the program for a moment.
func percentFor(live, goal uint64) int {
	const step, most = 25, 1000
	if live == 0 {
		return usual // nothing was collected yet
	}
	growth := (float64(goal) - float64(live)) / float64(live) * 100
	return int(min(most, max(usual, math.Floor(growth/step)*step)))
}

// live is how many bytes the last collection has left.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
