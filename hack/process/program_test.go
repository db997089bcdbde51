package process

import (
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

// A program that is given up fails the test, even if nothing waits for it.
func TestAProgramThatNeverComesToBeReady(t *testing.T) {
	p := player(t, "end=9x4")
	recorded := record(t, func(t testing.TB) {
		p.Launch(t)
		<-p.Ended()
	})
	require.Equal(t, []string{"the process.test ended 3 times before it was ready, the last time with: exit status 4"}, recorded.errors)
}

func TestHowAProgramEnds(t *testing.T) {
	p := player(t, "polite=7")
	p.Start(t)
	require.EqualError(t, p.Stop(), "exit status 7")
	p = player(t)
	p.Start(t)
	require.EqualError(t, p.Stop(), "signal: terminated", "without a handler")
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

	for said, want := range map[string][]string{
		"WARNING: DATA RACE":                         {"log of the process.test: WARNING: DATA RACE"},
		"fatal error: concurrent map writes":         {"log of the process.test: fatal error: concurrent map writes"},
		`level=ERROR msg="Observed a panic: at all"`: nil,
		"-----BEGIN EC PRIVATE KEY-----":             {"the log of the process.test holds a private key"},
	} {
		recorded = record(t, player(t, "say="+said).Start)
		require.Equal(t, want, recorded.errors)
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

// What a program did before Reset is forgotten, also while its next process has not started.
func TestResetOfAProgramThatIsRestarted(t *testing.T) {
	p := player(t)
	p.Pause = time.Hour
	p.Start(t)
	require.NoError(t, p.Reset())
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return p.PID() == 0 }, Soon, Tick)
	require.Len(t, p.Ends(), 1)
	require.NoError(t, p.Reset())
	require.Empty(t, p.Ends())
	require.Zero(t, p.Used())
}
