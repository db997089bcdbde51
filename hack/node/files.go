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

// The images that the node itself needs. Their names lie where no registry can: they
// are imported, never pulled.
const (
	pauseImage   = "node.servingcert.dev/pause:node"
	coreDNSImage = "node.servingcert.dev/coredns:node"
)

// values are what the files in config may refer to.
type values struct {
	layout
	PauseImage   string
	CoreDNSImage string
	CNIPlugins   string
	Snapshotter  string
}

// render fills in one of the files in config.
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

// overlayMagic is the type of file system that statfs tells of an overlay.
const overlayMagic = 0x794c7630

// snapshotterOf chooses how containerd stacks layers below dir: an overlay cannot lie
// on an overlay, as the disk of a container is.
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

// writeConfigs writes the files that components read. resolv.conf is what pods with
// dnsPolicy Default get: nobody to ask.
func (n *Node) writeConfigs() error {
	if err := os.MkdirAll(n.path("manifests"), 0o755); err != nil { // of static pods: a kubelet complains each second without
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
	return writeFile(n.path("config", "resolv.conf"), []byte("# the node knows the names of the cluster and no others\n"))
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
