package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/deploy"
)

func testValues(t *testing.T) values {
	t.Helper()
	l, err := newLayout("/var/lib/n", "10.99.0.0/16")
	require.NoError(t, err)
	return values{layout: l, PauseImage: pauseImage, CoreDNSImage: coreDNSImage, CNIPlugins: cniPlugins, Snapshotter: "overlayfs"}
}

// Rendered files parse, and refer only to the node's own directory and addresses.
func TestRender(t *testing.T) {
	v := testValues(t)
	read := func(file string) string {
		content, err := render(file, v)
		require.NoError(t, err)
		require.NotContains(t, string(content), "{{")
		require.NotContains(t, string(content), "10.88.")
		return string(content)
	}

	var kubelet map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(read("kubelet.yaml")), &kubelet))
	require.Equal(t, "/svcert-10-99", kubelet["cgroupRoot"])
	require.Equal(t, "10.99.0.2", kubelet["address"])
	require.Equal(t, []any{"10.99.64.10"}, kubelet["clusterDNS"])
	require.NotContains(t, kubelet, "syncFrequency", "changed Secrets must take as long as in other clusters")
	require.NotContains(t, kubelet, "configMapAndSecretChangeDetectionStrategy")

	var cni struct {
		Plugins []struct {
			IPAM struct {
				DataDir string                      `json:"dataDir"`
				Ranges  [][]struct{ Subnet string } `json:"ranges"`
				Routes  []struct{ Dst string }      `json:"routes"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	require.NoError(t, json.Unmarshal([]byte(read("cni.json")), &cni))
	require.Equal(t, "/var/lib/n/cni/addresses", cni.Plugins[0].IPAM.DataDir)
	require.Equal(t, "10.99.128.0/17", cni.Plugins[0].IPAM.Ranges[0][0].Subnet)

	require.Contains(t, read("containerd.toml"), `address = "/var/lib/n/run/containerd.sock"`)

	objects, err := deploy.Decode([]byte(read("coredns.yaml")))
	require.NoError(t, err)
	require.Len(t, objects, 6)
}

func TestRenderRefusesUnknown(t *testing.T) {
	_, err := render("none.yaml", testValues(t))
	require.Error(t, err)
}

func TestCgroupHierarchies(t *testing.T) {
	const hybrid = `tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
`
	require.Equal(t, []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}, cgroupHierarchies(hybrid))
	require.Equal(t, []string{"/sys/fs/cgroup"}, cgroupHierarchies("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"))
	require.Empty(t, cgroupHierarchies("\nproc /proc proc rw 0 0\n"))
}

// TestDelegate uses files in place of the kernel's.
func TestDelegate(t *testing.T) {
	v1 := t.TempDir()
	require.NoError(t, delegate(v1), "version 1 has no delegation")
	v2 := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(v2, "cgroup.controllers"), []byte("cpuset cpu io memory\n"), 0o600))
	require.ErrorIs(t, delegate(v2), os.ErrNotExist)
	control := filepath.Join(v2, "cgroup.subtree_control")
	require.NoError(t, os.WriteFile(control, []byte("cpu\n"), 0o600))
	require.NoError(t, delegate(v2))
	written, err := os.ReadFile(control)
	require.NoError(t, err)
	require.Equal(t, "+cpuset+memory", string(written), "wanted, available and not yet enabled")
}

func TestMountsBelow(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 0:35 / /var/lib/n/kubelet/pods/1/volumes rw - tmpfs tmpfs rw
41 22 0:36 / /var/lib/node rw - tmpfs tmpfs rw
42 22 0:37 / /var/lib/n rw - tmpfs tmpfs rw
`
	require.Equal(t, []string{"/var/lib/n/kubelet/pods/1/volumes", "/var/lib/n"}, mountsBelow(mountinfo, "/var/lib/n"))
	require.Empty(t, mountsBelow(mountinfo, "/var/lib/x"))
}

func TestRemoveTree(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cgroup")
	require.NoError(t, removeTree(root), "it does not exist")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "kubepods", "burstable", "pod1"), 0o755))
	require.NoError(t, removeTree(root))
	require.NoDirExists(t, root)

	require.NoError(t, os.MkdirAll(filepath.Join(root, "kubepods"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "kubepods", "busy"), nil, 0o600))
	require.ErrorContains(t, removeTree(root), "remove cgroup")
}

// Created directories are removed, unless they existed before or are in use.
func TestMadeOnMachine(t *testing.T) {
	machine, dir := t.TempDir(), t.TempDir()
	n := &Node{layout: layout{Dir: dir}}
	for _, made := range []string{"a/b/c", "there", "used/by/us"} {
		if made == "there" {
			require.NoError(t, os.MkdirAll(filepath.Join(machine, made), 0o755))
		}
		require.NoError(t, n.makeOnMachine(filepath.Join(machine, made)))
		require.DirExists(t, filepath.Join(machine, made))
	}
	require.NoError(t, os.WriteFile(filepath.Join(machine, "used", "by", "them"), nil, 0o600))
	require.NoError(t, n.removeMade(nil))
	require.NoDirExists(t, filepath.Join(machine, "a"))
	require.DirExists(t, filepath.Join(machine, "there"))
	require.NoDirExists(t, filepath.Join(machine, "used", "by", "us"))
	require.FileExists(t, filepath.Join(machine, "used", "by", "them"))
}

// The last node that stops removes the directories that the first one created.
func TestMadeForAnotherNodeToo(t *testing.T) {
	machine, first, second := t.TempDir(), &Node{layout: layout{Dir: t.TempDir()}}, &Node{layout: layout{Dir: t.TempDir()}}
	made := filepath.Join(machine, "a", "b")
	require.NoError(t, first.makeOnMachine(made))
	require.NoError(t, second.makeOnMachine(made))

	require.NoError(t, first.removeMade([]string{second.Dir}))
	require.DirExists(t, made)
	require.NoError(t, first.removeMade(nil), "another node has taken it over")
	require.DirExists(t, made)
	require.NoError(t, second.removeMade(nil))
	require.NoDirExists(t, filepath.Join(machine, "a"))
}
