package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// cniPlugins is the directory of Debian's containernetworking-plugins.
const cniPlugins = "/usr/lib/cni"

// needed are the required programs, and the Debian package of each.
var needed = []struct{ program, pkg string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"ip", "iproute2"},
	{"mount", "mount"},
	{"nsenter", "util-linux"},
	{"setsid", "util-linux"},
	{filepath.Join(cniPlugins, "ptp"), "containernetworking-plugins"},
	{filepath.Join(cniPlugins, "host-local"), "containernetworking-plugins"},
	{filepath.Join(cniPlugins, "portmap"), "containernetworking-plugins"},
}

// checkMachine returns an error if this machine cannot run a node.
func checkMachine() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a node needs Linux, not %s", runtime.GOOS)
	}
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("a node needs root, not user %d, to create namespaces and run containerd", uid)
	}
	return missingPackages(exec.LookPath)
}

func missingPackages(lookPath func(string) (string, error)) error {
	var programs, packages []string
	for _, need := range needed {
		if _, err := lookPath(need.program); err == nil {
			continue
		}
		programs = append(programs, need.program)
		if !slices.Contains(packages, need.pkg) {
			packages = append(packages, need.pkg)
		}
	}
	if len(programs) > 0 {
		return fmt.Errorf("a node needs %s, not found in PATH=%s: apt-get install --no-install-recommends %s",
			strings.Join(programs, ", "), os.Getenv("PATH"), strings.Join(packages, " "))
	}
	return nil
}
