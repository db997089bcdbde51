//go:build e2e

package node

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is the state of a machine that a node might change.
type machine struct {
	Mounts, Links, Routes, Rules, Processes, Dirs, Settings []string
}

// look returns the state of the machine that the tests' node could have changed, without that of
// other running nodes.
func look(t *testing.T) machine {
	t.Helper()
	others := regexp.MustCompile(`svcert-\d+-\d+`)
	mine, err := newLayout(*testDir, *testSubnet)
	require.NoError(t, err)
	keep := func(line string) bool {
		found := others.FindString(line)
		return found == "" || found == mine.Name
	}
	lines := func(name string, args ...string) []string {
		out, err := exec.CommandContext(t.Context(), name, args...).Output()
		require.NoError(t, err, name)
		// Packet counters change all the time.
		text := regexp.MustCompile(`\[\d+:\d+\]|(?m)^#.*$`).ReplaceAllString(string(out), "")
		var kept []string
		for line := range strings.Lines(text) {
			if keep(line) && strings.TrimSpace(line) != "" {
				kept = append(kept, strings.TrimSpace(line))
			}
		}
		slices.Sort(kept)
		return kept
	}
	m := machine{
		Mounts: lines("cat", "/proc/self/mounts"),
		Routes: lines("ip", "route", "show", "table", "all"),
		Rules:  lines("iptables-save"),
	}
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		if keep(i.Name) {
			m.Links = append(m.Links, i.Name)
		}
	}
	m.Dirs = dirs(t, mine)
	for _, setting := range slices.Sorted(maps.Keys(kernelSettings)) {
		value, err := os.ReadFile(filepath.Join("/proc/sys", setting))
		require.NoError(t, err)
		m.Settings = append(m.Settings, setting+"="+strings.TrimSpace(string(value)))
	}
	m.Processes = processesBelow(t, *testDir)
	return m
}

// dirs returns the directories on this machine that a node of the tests creates, without the shared
// ones if another node runs.
func dirs(t *testing.T, mine layout) []string {
	t.Helper()
	candidates := []string{mine.Dir, mine.Dir + "2", filepath.Join("/run/netns", mine.Name)}
	cgroups, err := hierarchies()
	require.NoError(t, err)
	for _, dir := range cgroups {
		candidates = append(candidates, filepath.Join(dir, mine.Name))
	}
	others, err := otherNodes(mine.Dir)
	require.NoError(t, err)
	if len(slices.DeleteFunc(others, func(dir string) bool { return dir == mine.Dir+"2" })) == 0 {
		candidates = slices.AppendSeq(candidates, maps.Keys(mine.privateDirs()))
	}
	return slices.Sorted(slices.Values(slices.DeleteFunc(candidates, func(dir string) bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})))
}

// processesBelow returns the processes with a node's directory in their command line or environment:
// components, and containerd's shims.
func processesBelow(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		environ, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		cmdline, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if strings.Contains(string(environ), envNode+"="+dir+"\x00") || strings.Contains(string(cmdline), dir+"/run/") {
			found = append(found, entry.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}
