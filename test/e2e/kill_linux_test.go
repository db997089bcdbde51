//go:build e2e && linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// processesIn returns the processes of this name in a pod, on this machine. It returns an error if
// there is none.
func processesIn(pod types.UID, name string) ([]int, error) {
	cgroups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, file := range cgroups {
		dir := filepath.Dir(file)
		cgroup, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(cgroup), "/pod"+string(pod)+"/") {
			continue // exited, or of another pod
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue // the sandbox's
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("no process %s in pod %s", name, pod)
	}
	return pids, nil
}

// kill9 kills processes, so that they release no Lease. The kubelet restarts their containers.
func kill9(pids []int) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) { // already exited
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
