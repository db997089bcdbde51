package process

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envPlays makes the test binary run as the program play.
const envPlays = "SERVINGCERT_TEST_PLAYS"

// play is a small program with a /readyz. Its arguments are a file in which it counts its starts,
// the steps, and --health-addr.
func play(args []string) {
	file, steps := args[0], args[1:]
	started, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = started.WriteString(".")
	}
	if err != nil {
		panic(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	n := len(content)
	address := strings.TrimPrefix(steps[len(steps)-1], "--health-addr=")
	for _, step := range steps[:len(steps)-1] {
		verb, what, _ := strings.Cut(step, "=")
		var times, code int
		switch verb {
		case "say":
			fmt.Fprintln(os.Stderr, what)
		case "end": // NxCODE: exit at starts 1 to N, with that code
			if _, err := fmt.Sscanf(what, "%dx%d", &times, &code); err != nil {
				panic(err)
			}
			if n <= times {
				fmt.Fprintf(os.Stderr, "start %d ends\n", n)
				os.Exit(code)
			}
		case "crash":
			if n == 1 {
				go crashOnceReady(address)
			}
		case "polite":
			asked := make(chan os.Signal, 1)
			signal.Notify(asked, syscall.SIGTERM)
			go func() {
				<-asked
				fmt.Fprintln(os.Stderr, "asked to end")
				_, _ = fmt.Sscanf(what, "%d", &code)
				os.Exit(code)
			}()
		}
	}
	fmt.Fprintf(os.Stderr, "start %d\n", n)
	panic(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})))
}

// crashOnceReady panics shortly after /readyz has succeeded.
func crashOnceReady(address string) {
	for answersReady(context.Background(), address) != nil {
		time.Sleep(Tick)
	}
	time.Sleep(10 * Tick)
	panic("as a program does")
}

// programs are the programs that this executable can run as.
var programs = Programs{"repeats": func() { fmt.Println(os.Args[1:]); os.Exit(3) }}

func TestMain(m *testing.M) {
	programs.RunAs()
	if os.Getenv(envPlays) != "" {
		play(os.Args[1:])
	}
	os.Exit(m.Run())
}

// player returns a program that runs the steps.
func player(t *testing.T, steps ...string) *Program {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	return &Program{Path: executable, Env: []string{envPlays + "=1"}, Args: append([]string{filepath.Join(t.TempDir(), "starts")}, steps...)}
}

// recorder is a test within a test; it records failures.
type recorder struct {
	testing.TB
	cleanups              []func()
	fatal, errors, logged []string
}

// record runs a test function, and its cleanups.
func record(t *testing.T, what func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		what(r)
	}()
	<-done
	return r
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool     { return len(r.fatal)+len(r.errors) > 0 }
func (r *recorder) Error(args ...any) {
	r.errors = append(r.errors, fmt.Sprint(args...))
}

func (r *recorder) Fatal(args ...any) {
	r.fatal = append(r.fatal, fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Logf(format string, args ...any) {
	r.logged = append(r.logged, fmt.Sprintf(format, args...))
}
