//go:build linux && programs

package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// envUnshared is set in the process that has mounts of its own.
const envUnshared = "SERVINGCERT_PROGRAMS_UNSHARED"

// TestMain runs the tests in a process whose mounts are its own: what it mounts in the root
// directory of the programs is gone when it ends, however it ends.
func TestMain(m *testing.M) {
	if os.Getenv(envUnshared) != "" {
		os.Exit(m.Run())
	}
	os.Exit(unshared())
}

// unshared runs this program again, and returns its exit code.
func unshared() int {
	runtime.LockOSThread() // Pdeathsig means the thread that forks
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), envUnshared+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "a process with mounts of its own, which needs root on Linux:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
