package node

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"text/template"
)

//go:embed config
var configs embed.FS

// The images of the node itself. No registry can have their names: they are imported, never pulled.
const (
	pauseImage   = "node.servingcert.dev/pause:node"
	coreDNSImage = "node.servingcert.dev/coredns:node"
)

// values are the variables of the files in config.
type values struct {
	layout
	PauseImage   string
	CoreDNSImage string
	CNIPlugins   string
	Snapshotter  string
}

// render executes the template of a file in config.
func render(file string, v values) ([]byte, error) {
	t, err := template.New(file).Option("missingkey=error").ParseFS(configs, "config/"+file)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("config/%s: %w", file, err)
	}
	return out.Bytes(), nil
}

func (n *Node) values() (values, error) {
	snapshotter, err := snapshotterOf(n.Dir)
	return values{
		layout: n.layout, PauseImage: pauseImage, CoreDNSImage: coreDNSImage, CNIPlugins: cniPlugins, Snapshotter: snapshotter,
	}, err
}

// overlayMagic is the file system type that statfs returns for overlayfs.
const overlayMagic = 0x794c7630

// snapshotterOf returns the snapshotter of containerd for dir: overlayfs does not work on overlayfs,
// such as in a container.
func snapshotterOf(dir string) (string, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("file system of %s: %w", dir, err)
	}
	if fs.Type == overlayMagic {
		return "native", nil
	}
	return "overlayfs", nil
}

// writeConfigs writes the components' files. resolv.conf, for pods with dnsPolicy Default, has no server.
func (n *Node) writeConfigs() error {
	if err := os.MkdirAll(n.path("manifests"), 0o755); err != nil { // of static pods: without it, the kubelet logs an error each second
		return err
	}
	v, err := n.values()
	if err != nil {
		return err
	}
	files := map[string]string{
		"containerd.toml": n.path("config", "containerd.toml"),
		"kubelet.yaml":    n.path("config", "kubelet.yaml"),
		"cni.json":        n.path("cni", "conf", "10-node.conflist"),
	}
	for file, path := range files {
		content, err := render(file, v)
		if err != nil {
			return err
		}
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	return writeFile(n.path("config", "resolv.conf"), []byte("# only names of the cluster can be resolved\n"))
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
