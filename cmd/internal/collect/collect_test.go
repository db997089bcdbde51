package collect

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, goal uint64
		want       int
	}{
		{0, 56 * mib, 100}, // nothing was collected yet
		{1 * mib, 56 * mib, 1000},
		{10 * mib, 56 * mib, 450},  // to 55
		{20 * mib, 56 * mib, 175},  // to 55
		{28 * mib, 56 * mib, 100},  // as ever
		{40 * mib, 56 * mib, 100},  // the goal cannot be kept: as ever
		{100 * mib, 56 * mib, 100}, // more is live than the goal
	} {
		assert.Equal(t, c.want, percentFor(c.live, c.goal), "%d of %d", c.live, c.goal)
	}
}

// TestThePaceIsSetOnlyWhenItChanges: each time stops the program for a moment.
func TestThePaceIsSetOnlyWhenItChanges(t *testing.T) {
	var set []int
	p := &pacer{goal: 56 << 20, percent: usual, set: func(percent int) { set = append(set, percent) }}
	for _, mib := range []uint64{0, 10, 10, 30, 31, 20} {
		p.adjust(mib << 20)
	}
	assert.Equal(t, []int{450, 100, 175}, set)
}

// TestThePaceFollowsTheHeap: in a process with a limit, as GODEBUG=gctrace=1 tells its goals.
func TestThePaceFollowsTheHeap(t *testing.T) {
	goals := func(t *testing.T, env ...string) string {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(self, "-test.run=^TestChild$", "-test.v")
		cmd.Env = append(os.Environ(), append(env, "COLLECT_CHILD=1")...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	assert.Contains(t, goals(t, "GOMEMLIMIT=100MiB"), "little: seldom\nmuch: as ever\n")
	assert.Contains(t, goals(t, "GOMEMLIMIT=off"), "little: as ever\nmuch: as ever\n")
	assert.Contains(t, goals(t, "GOMEMLIMIT=100MiB", "GOGC=100"), "little: as ever\nmuch: as ever\n")
}

// TestChild is the process of TestThePaceFollowsTheHeap.
func TestChild(t *testing.T) {
	if os.Getenv("COLLECT_CHILD") == "" {
		t.Skip("is run by another test")
	}
	Seldom()
	// percent is that which is set once the cleanup after a collection has run.
	percent := func(reached func(int) bool) int {
		for deadline := time.Now().Add(10 * time.Second); ; {
			runtime.GC()
			runtime.Gosched()
			p := debug.SetGCPercent(-1)
			debug.SetGCPercent(p)
			if reached(p) || time.Now().After(deadline) {
				return p
			}
			time.Sleep(time.Millisecond)
		}
	}
	say := func(what string, p int) {
		pace := "as ever"
		if p > usual {
			pace = "seldom"
		}
		print(strings.Join([]string{what, ": ", pace, "\n"}, ""))
	}
	limited := debug.SetMemoryLimit(-1) != math.MaxInt64 && os.Getenv("GOGC") == ""
	say("little", percent(func(p int) bool { return !limited || p > usual }))
	keep := make([]byte, 60<<20)
	say("much", percent(func(p int) bool { return p == usual }))
	runtime.KeepAlive(keep)
}
