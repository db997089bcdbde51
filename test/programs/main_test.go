//go:build linux && programs

package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// envUnshared is set in the process that has mounts of its own.
const envUnshared = "SERVINGCERT_PROGRAMS_UNSHARED"

// TestMain runs the tests in a process with processes and mounts of its own: whatever is
// started, and what is mounted, is gone when it ends, however it ends.
func TestMain(m *testing.M) {
	plugins.RunAs()
	ctrl.SetLogger(logr.Discard())
	if os.Getenv(envUnshared) == "" {
		os.Exit(unshared())
	}
	if err := mountProc("/proc"); err != nil { // the one that is there shows other processes
		fmt.Fprintln(os.Stderr, "mount /proc:", err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 && lists.Load() > 0 && listed.Load() == 0 {
		fmt.Fprintln(os.Stderr, "no program has a name that matches RUN, the last part of -run")
		code = 1
	}
	os.Exit(code)
}

// lists counts the lists of programs that tests went through, and listed the programs in them that -run chose: it may
// choose none, and the tests pass.
var lists, listed atomic.Int64

// unshared runs this program again, and returns its exit code.
func unshared() int {
	runtime.LockOSThread() // Pdeathsig means the thread that forks
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), envUnshared+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "a process with processes and mounts of its own, which needs root on Linux:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
