package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupHierarchies returns the mount points of cgroups: one for each controller in
// version 1, one in version 2, or both.
func cgroupHierarchies(mounts string) []string {
	var found []string
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			found = append(found, fields[1])
		}
	}
	return found
}

func hierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	found := cgroupHierarchies(string(mounts))
	if len(found) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted")
	}
	return found, nil
}

// makeCgroups creates the cgroup that the kubelet requires, the parent of the pods' cgroups.
func (l layout) makeCgroups() error {
	found, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range found {
		if err := delegate(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, l.Name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// wantedControllers are the controllers that the kubelet uses in version 2, if the kernel has them.
var wantedControllers = []string{"cpu", "cpuset", "memory", "hugetlb", "pids"}

// delegate enables the controllers of a version 2 hierarchy for its child cgroups, as systemd does.
// It does nothing in version 1.
func delegate(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	given, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	control, err := os.OpenFile(filepath.Join(dir, "cgroup.subtree_control"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for name := range strings.FieldsSeq(string(controllers)) {
		if !slices.Contains(wantedControllers, name) || slices.Contains(strings.Fields(string(given)), name) {
			continue
		}
		if _, err := control.WriteString("+" + name); err != nil {
			// In a container with its own cgroup namespace, the root contains processes.
			return fmt.Errorf("enable controller %s for the cgroups below %s: %w; move the processes of that cgroup into cgroups below it", name, dir, err)
		}
	}
	return nil
}

// removeCgroups removes the node's cgroups, the innermost first. Their processes have exited, but
// the kernel may need a moment.
func (l layout) removeCgroups() error {
	found, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range found {
		errs = append(errs, removeTree(filepath.Join(dir, l.Name)))
	}
	return errors.Join(errs...)
}

// removeTree removes directories that contain only directories and the kernel's files, which
// disappear with them.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}
