package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// publication is the data of a release in the chart.
type publication struct {
	version  string            // of chart and processes, with v
	registry string            // of all images
	digests  map[string]string // of the image of each process: sha256:HEX
	time     time.Time         // of each file in the archive
}

// runPackage writes the archive of the chart and install.yaml for a release.
func runPackage(args []string) error {
	flags := flag.NewFlagSet("chart package", flag.ContinueOnError)
	p := publication{digests: map[string]string{}}
	flags.StringVar(&p.version, "version", "", "version of chart and processes: v1.2.3")
	flags.StringVar(&p.registry, "registry", "ghcr.io", "registry of the images")
	flags.Func("digest", "PROCESS=DIGEST of an image; must be given for each image", func(s string) error {
		process, digest, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("must be PROCESS=DIGEST")
		}
		p.digests[process] = digest
		return nil
	})
	epoch := flags.Int64("epoch", 0, "time of the files, in seconds since 1970")
	dir := flags.String("dir", "", "directory for servingcert-VERSION.tgz and install.yaml")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.version == "" || *dir == "" {
		return errors.New("package: --version and --dir are required")
	}
	p.time = time.Unix(*epoch, 0).UTC()
	c, err := load(filepath.Join(repository, chartDir))
	if err != nil {
		return err
	}
	if c, err = c.published(p); err != nil {
		return err
	}
	if _, err := chartutil.Save(c.Chart, *dir); err != nil {
		return err
	}
	install, err := c.install(p.version)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*dir, "install.yaml"), install, 0o644)
}

// published returns the chart of a release: with its version, and with registry and digests of the
// images in values.yaml, whose comments are kept.
func (c chart) published(p publication) (chart, error) {
	files := make([]*archive.BufferedFile, 0, len(c.Raw))
	for _, raw := range c.Raw {
		data, err := raw.Data, error(nil)
		switch raw.Name {
		case chartutil.ChartfileName:
			data, err = setScalars(data, map[string]string{"version": strings.TrimPrefix(p.version, "v"), "appVersion": p.version})
		case chartutil.ValuesfileName:
			values := map[string]string{"image.registry": p.registry}
			for process, digest := range p.digests {
				values[process+".image.digest"] = digest
			}
			data, err = setScalars(data, values)
		}
		if err != nil {
			return chart{}, fmt.Errorf("%s: %w", raw.Name, err)
		}
		files = append(files, &archive.BufferedFile{Name: raw.Name, Data: data, ModTime: p.time})
	}
	made, err := loader.LoadFiles(files)
	if err != nil {
		return chart{}, err
	}
	date(made, p.time)
	return chart{made}, made.Validate()
}

// date sets the time of every file, as the default is the current time.
func date(c *chartv2.Chart, t time.Time) {
	c.ModTime, c.SchemaModTime = t, t
	for _, f := range c.Raw {
		f.ModTime = t
	}
	for _, f := range c.Templates {
		f.ModTime = t
	}
	for _, f := range c.Files {
		f.ModTime = t
	}
}

const releaseHead = `# servingcert %s: everything that a cluster needs, in the order in which it is
# applied, with images by digest. Kubernetes 1.30 or newer.
#
#   kubectl apply --server-side -f install.yaml
---
`

// install returns install.yaml of a release.
func (c chart) install(version string) ([]byte, error) {
	r, err := c.render(defaultNamespace, nil)
	if err != nil {
		return nil, err
	}
	text, err := r.text(r.names()...)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, releaseHead+"%s", version, text), nil
}

// setScalars sets scalars in the text of a YAML file, by their paths with dots, and changes nothing
// else. Each must exist, and be the last on its line.
func setScalars(text []byte, values map[string]string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 {
		return nil, errors.New("must be a mapping")
	}
	lines := strings.Split(string(text), "\n")
	for path, value := range values {
		node := nodeAt(document.Content[0], strings.Split(path, "."))
		if node == nil || node.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s: does not exist or is not a scalar", path)
		}
		quoted, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		line := lines[node.Line-1]
		before, old := line[:node.Column-1], line[node.Column-1:]
		var now string
		if err := yaml.Unmarshal([]byte(old), &now); err != nil || now != node.Value || node.LineComment != "" {
			return nil, fmt.Errorf("line %d: %s: must be alone at the end of the line", node.Line, path)
		}
		lines[node.Line-1] = before + strings.TrimSuffix(string(quoted), "\n")
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// nodeAt returns the node at a path of keys, or nil.
func nodeAt(node *yaml.Node, path []string) *yaml.Node {
	if len(path) == 0 {
		return node
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == path[0] {
			return nodeAt(node.Content[i+1], path[1:])
		}
	}
	return nil
}
