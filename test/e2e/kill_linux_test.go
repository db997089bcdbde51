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

// kill9 kills the processes of that name in a pod, from the machine that is its
// node: without a word to anybody, so that no lease is given back. The kubelet
// starts the container anew.
func kill9(name string, pod types.UID) error {
	cgroups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return err
	}
	killed := 0
	var errs []error
	for _, file := range cgroups {
		dir := filepath.Dir(file)
		cgroup, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(cgroup), "/pod"+string(pod)+"/") {
			continue // it has ended, or is another's
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue // the sandbox's
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return err
		}
		errs = append(errs, syscall.Kill(pid, syscall.SIGKILL))
		killed++
	}
	if killed == 0 {
		errs = append(errs, fmt.Errorf("no process %s in pod %s", name, pod))
	}
	return errors.Join(errs...)
}
