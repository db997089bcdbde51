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

// cniPlugins is where Debian's containernetworking-plugins are.
const cniPlugins = "/usr/lib/cni"

// needed are the programs that the machine must have, and the Debian package of each.
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

// checkMachine says what is missing to run a node here.
func checkMachine() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a node runs on Linux, not on %s", runtime.GOOS)
	}
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("a node needs root, this is user %d: it makes namespaces and runs containerd", uid)
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
