package process

import (
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nextReady waits until another process than pid is ready.
func nextReady(t *testing.T, p *Program, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return p.PID() != pid && p.Ready(t.Context()) == nil }, Soon, Tick)
	require.NoError(t, p.AwaitReady(t.Context()))
}

// says waits until the program's log matches: output is copied with a delay.
func says(t *testing.T, p *Program, pattern string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Regexp(c, pattern, p.Log.String()) }, Soon, Tick)
}

func TestAProgramThatEndsIsStartedAgain(t *testing.T) {
	p := player(t, "end=1x3", "polite")
	p.Start(t)
	require.Equal(t, 1, p.Restarts(), "it was not ready at first")
	says(t, p, `(?s)^start 1 ends\nharness: the process.test ended after \S+: exit status 3; restart 1 in 100ms\nstart 2\n$`)

	first := p.PID()
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	nextReady(t, p, first)
	require.Equal(t, 2, p.Restarts())
	says(t, p, `(?s)start 2\nharness: the process.test ended after \S+: signal: killed; restart 2 in 100ms\nstart 3\n$`)

	require.NoError(t, p.Stop())
	require.Regexp(t, `start 3\nasked to end\n$`, p.Log.String(), "no further start")
	require.Zero(t, p.PID())
	require.NoError(t, p.Stop(), "it is not running")
	p.Kill()
	require.NoError(t, p.Err())
}

func TestAProgramStaysDead(t *testing.T) {
	p := player(t)
	p.Start(t)
	pid := p.PID()
	require.ErrorContains(t, p.Run(), "start the process.test: it is already running")
	p.Kill()
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "Kill waits for the end")
	select {
	case <-p.Ended():
	default:
		require.Fail(t, "it has not ended")
	}
	time.Sleep(3 * firstBackoff)
	require.Zero(t, p.PID())
	require.Zero(t, p.Restarts())
	require.Equal(t, "start 1\n", p.Log.String())
	require.ErrorContains(t, p.AwaitReady(t.Context()), "the process.test was stopped")
	require.Error(t, p.Ready(t.Context()))

	p.Args = append(p.Args, "say=other arguments")
	p.Start(t)
	require.NoError(t, p.Ready(t.Context()))
	says(t, p, `^start 1\nother arguments\nstart 2\n$`)
}

// Kill and Stop between two processes prevent the restart.
func TestAProgramIsEndedBetweenTwoProcesses(t *testing.T) {
	for name, end := range map[string]func(*Program) error{
		"killed": func(p *Program) error { p.Kill(); return nil }, "stopped": (*Program).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			p := player(t)
			p.Pause = 2 * time.Second // a busy machine may take long to get there
			p.Start(t)
			require.NoError(t, syscall.Kill(p.PID(), syscall.SIGKILL))
			for p.Restarts() == 0 {
				runtime.Gosched()
			}
			require.NoError(t, end(p))
			time.Sleep(p.Pause + 3*firstBackoff)
			require.Zero(t, p.PID())
			require.Regexp(t, `^start 1\nharness: .*; restart 1 in 2s\n$`, p.Log.String())
		})
	}
}

func TestAProgramThatNeverComesToBeReady(t *testing.T) {
	p := player(t, "end=9x4")
	begin := time.Now()
	recorded := record(t, p.Start)
	require.Less(t, time.Since(begin), Soon/2, "at once")
	require.Equal(t, []string{"the process.test ended 3 times before it was ready, the last time with: exit status 4"}, recorded.fatal)
	require.Contains(t, recorded.logged[0], "start 1 ends\nharness: ")
	require.Contains(t, recorded.logged[0], "start 3 ends\n")
	require.NotContains(t, recorded.logged[0], "start 4")
	require.Equal(t, 2, p.Restarts())

	launched := player(t, "end=9x0")
	recorded = record(t, func(t testing.TB) {
		launched.Launch(t)
		<-launched.Ended()
	})
	require.Equal(t, []string{"the process.test ended 3 times before it was ready, the last time with: exit status 0"}, recorded.errors, "without AwaitReady")
}

// A program that was ready may exit any number of times.
func TestAProgramThatWasReadyIsNotGivenUp(t *testing.T) {
	p := player(t, "end=2x1")
	p.Start(t)
	for range mostFailedStarts {
		pid := p.PID()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		nextReady(t, p, pid)
	}
	require.Equal(t, 2+mostFailedStarts, p.Restarts())
	require.NoError(t, p.Err())
	require.Equal(t, []string{"100ms", "200ms", "100ms", "100ms", "100ms"}, backoffs(p), "the backoff is reset once a process was ready")

	p = player(t, "relapse=3x1")
	p.Start(t)
	pid := p.PID()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	for p.Restarts() == 0 {
		runtime.Gosched()
	}
	require.NoError(t, p.AwaitReady(t.Context()))
	require.NotContains(t, []int{0, pid}, p.PID(), "another process is ready")
	require.Equal(t, []string{"100ms", "200ms", "400ms"}, backoffs(p), "the backoff grows while no process is ready")
	require.NoError(t, p.Err())
}

func backoffs(p *Program) (all []string) {
	for _, found := range regexp.MustCompile(`; restart \d in (\S+)`).FindAllStringSubmatch(p.Log.String(), -1) {
		all = append(all, found[1])
	}
	return all
}

// A Kill right before the next start prevents it.
func TestNoProcessFollowsTheEnd(t *testing.T) {
	require.Nil(t, player(t).restart(&run{ending: true}))
}

func TestAProgramThatIsNotReadyInTime(t *testing.T) {
	p := player(t, "unready")
	p.patience = 5 * time.Second // long enough for it to listen
	recorded := record(t, p.Start)
	require.Len(t, recorded.fatal, 1)
	require.Contains(t, recorded.fatal[0], "/readyz: 503 Service Unavailable: that is all there is")
	require.Contains(t, recorded.logged[0], "log of the process.test:\nstart 1\n")
	require.ErrorContains(t, (&Program{Path: "signer"}).AwaitReady(t.Context()), "the signer was not started")
}

func TestAProgramThatIsMissing(t *testing.T) {
	recorded := record(t, (&Program{Path: filepath.Join(t.TempDir(), "none")}).Start)
	require.Len(t, recorded.fatal, 1)
	require.Contains(t, recorded.fatal[0], "start the none: ")
}

func TestHowAProgramEnds(t *testing.T) {
	t.Run("badly", func(t *testing.T) {
		p := player(t, "polite=7")
		p.Start(t)
		require.EqualError(t, p.Stop(), "exit status 7")
		p.Start(t)
		pid := p.PID()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		nextReady(t, p, pid)
		require.EqualError(t, p.Stop(), "exit status 7", "even after a restart")
	})
	t.Run("without a handler", func(t *testing.T) {
		p := player(t)
		p.Start(t)
		require.EqualError(t, p.Stop(), "signal: terminated")
	})
	t.Run("before it has a handler again", func(t *testing.T) {
		p := player(t)
		p.Start(t)
		pid := p.PID()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		nextReady(t, p, pid)
		require.NoError(t, p.Stop())
	})
	t.Run("not at all", func(t *testing.T) {
		p := player(t, "deaf")
		p.Start(t)
		pid := p.PID()
		p.patience = time.Second
		require.EqualError(t, p.Stop(), `the process.test did not end within 1s of signal "terminated"`)
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

// A restart does not hide a crash.
func TestACrashFailsTheTest(t *testing.T) {
	crashes := player(t, "crash")
	recorded := record(t, func(t testing.TB) {
		crashes.Start(t)
		pid := crashes.PID()
		for end := time.Now().Add(Soon); time.Now().Before(end) && (crashes.PID() == pid || crashes.AwaitReady(t.Context()) != nil); {
			time.Sleep(Tick)
		}
	})
	require.Equal(t, []string{"log of the process.test: panic: as a program does"}, recorded.errors)
	require.Contains(t, recorded.logged[0], "exit status 2; restart 1 in 100ms\nstart 2\n")

	for said, found := range map[string]bool{
		"WARNING: DATA RACE":                         true,
		"fatal error: concurrent map writes":         true,
		`level=ERROR msg="Observed a panic: at all"`: false,
	} {
		recorded = record(t, player(t, "say="+said).Start)
		if !found {
			require.Empty(t, recorded.errors)
			continue
		}
		require.Equal(t, []string{"log of the process.test: " + said}, recorded.errors)
	}
}

func TestAProgramIsGoneAfterItsTest(t *testing.T) {
	p := player(t)
	recorded := record(t, func(t testing.TB) {
		p.Start(t)
		p.Kill()
		p.Start(t)
	})
	require.Empty(t, recorded.errors)
	require.Empty(t, recorded.logged, "nothing failed")
	require.Zero(t, p.PID())
}

func TestAProgramIsUsedByManyAtOnce(t *testing.T) {
	p := player(t)
	p.Start(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 6 {
				switch i % 4 {
				case 0:
					p.Kill()
				case 1:
					_ = p.Run() // it may be running
				case 2:
					if pid := p.PID(); pid != 0 {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				default:
					_ = p.Stop()
					_ = p.Restarts()
				}
			}
		})
	}
	all.Wait()
	p.Kill()
	require.Zero(t, p.PID())
}
