package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// holder is the component that holds the node's namespaces, their first process.
const holder = "pause"

// startHolder creates the namespaces, with their network.
func (n *Node) startHolder(ctx context.Context) error {
	unlock, err := lockMachine(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	script, err := n.holderScript()
	if err != nil {
		return err
	}
	log, err := n.openLog(holder)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("sh", "-c", script, n.binaries[holder]) // it outlives ctx
	cmd.Env = environment(n.Dir, holder)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = newNamespaces()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("create namespaces: %w", err)
	}
	go func() { _ = cmd.Wait() }() // so that it does not become a zombie
	if err := n.awaitReady(ctx, holder, func(context.Context) error { return nil }); err != nil {
		return err
	}
	return n.connect(ctx)
}

// kernelSettings are the settings that the kubelet requires and would change for the whole machine.
// In the node, files with the required values are mounted over the kernel's.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// holderScript returns the script that the first process runs before it becomes the holder. Mounts do
// not propagate between the node and the machine, but the kubelet's mounts propagate to containers.
func (n *Node) holderScript() (string, error) {
	script := []string{"set -e", "mount --make-rprivate /", "mount -t proc proc /proc"}
	dirs := n.privateDirs()
	for _, target := range slices.Sorted(maps.Keys(dirs)) {
		if err := n.makeOnMachine(target); err != nil {
			return "", err
		}
		if err := os.MkdirAll(dirs[target], 0o755); err != nil {
			return "", err
		}
		script = append(script, fmt.Sprintf("mount --bind %s %s", dirs[target], target))
	}
	for _, setting := range slices.Sorted(maps.Keys(kernelSettings)) {
		file := n.path("config", "sys", setting)
		if err := writeFile(file, []byte(kernelSettings[setting]+"\n")); err != nil {
			return "", err
		}
		script = append(script, fmt.Sprintf("mount --bind %s /proc/sys/%s", file, setting))
	}
	return strings.Join(append(script, "mount --make-rshared /", `exec "$0"`), "\n"), nil
}

// madeFile lists the directories outside of the node's directory that were created for it.
const madeFile = "made-on-machine"

// makeOnMachine creates a directory outside of the node's directory. It records what it will create
// before, so that nothing is left behind.
func (n *Node) makeOnMachine(dir string) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		missing = append(missing, d)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := appendTo(n.path(madeFile), strings.Join(missing, "\n")+"\n"); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// removeFromMachine removes what makeOnMachine created, under a lock, as all nodes use the same
// directories.
func (l layout) removeFromMachine(ctx context.Context) error {
	unlock, err := lockMachine(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	others, err := otherNodes(l.Dir)
	if err != nil {
		return err
	}
	return l.removeMade(others)
}

// removeMade removes the directories that are not in use. If another node has mounts there, which the
// kernel would remove, that node gets the list and removes them later.
func (l layout) removeMade(others []string) error {
	data, err := os.ReadFile(l.path(madeFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(others) > 0 {
		if err := appendTo(filepath.Join(others[0], madeFile), string(data)); err != nil {
			return err
		}
		return os.Remove(l.path(madeFile))
	}
	for dir := range strings.Lines(string(data)) {
		_ = os.Remove(strings.TrimSpace(dir)) // fails if it is in use
	}
	return nil
}

// lockMachine prevents two nodes from creating and removing the same directories concurrently.
func lockMachine(ctx context.Context) (unlock func(), err error) {
	return lock(ctx, "@servingcert-node", "the directories that all nodes share")
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// mountsBelow returns the mount points in mountinfo (proc_pid_mountinfo(5)) at or below a directory.
func mountsBelow(mountinfo, dir string) []string {
	var found []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := fields[4]; point == dir || strings.HasPrefix(point, dir+"/") {
			found = append(found, point)
		}
	}
	return found
}
