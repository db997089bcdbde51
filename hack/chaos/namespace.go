package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// inside is set in the environment of the program that runs in its own namespace.
const inside = "SERVINGCERT_CHAOS_INSIDE"

// inNamespace runs this program again in a mount namespace of its own, if this is root and
// not that program, and returns its exit code. A mount goes with the last process there.
func inNamespace() (code int, done bool) {
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		return 0, false
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1, true
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig means the thread that forks
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: a mount namespace:", err)
		return 1, true
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have just ended
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1, true
	}
	if code = cmd.ProcessState.ExitCode(); code < 0 { // a signal
		code = 1
	}
	return code, true
}
