package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// PodNetwork has the addresses of pods in a network namespace of RunInOwnNetwork. Unlike those of loopback,
// EndpointSlices accept them.
const PodNetwork = "10.244.0.0/16"

// RunInOwnNetwork runs the test binary again, with one more variable in its environment, in a network namespace
// that goes when it ends, and returns its exit code. There is no network but loopback, so what is downloaded
// has to be there before.
func RunInOwnNetwork(variable string) (code int, err error) {
	again := exec.Command(os.Args[0], os.Args[1:]...)
	again.Env = append(os.Environ(), variable)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	err = again.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// StartOwnNetwork starts loopback in such a namespace, with all of PodNetwork as its own addresses.
func StartOwnNetwork(ctx context.Context) error {
	for _, args := range []string{"link set lo up", "route add local " + PodNetwork + " dev lo"} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w\n%s", args, err, out)
		}
	}
	return nil
}
