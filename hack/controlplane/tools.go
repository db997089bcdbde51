package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path"
	"regexp"
)

// majorVersion matches the last element of a module path if it is a version.
var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// Tools returns the path of each tool of a module of this repository, by the tool's name:
// the programs that the module's go.mod lists as "tool". They are built and cached as by [Binaries].
func Tools(ctx context.Context, log io.Writer, module string) (map[string]string, error) {
	b, err := newBuilder(log, module)
	if err != nil {
		return nil, err
	}
	packages, err := b.tools(ctx)
	if err != nil {
		return nil, err
	}
	b.sources = map[string]source{}
	for _, pkg := range packages {
		b.sources[toolName(pkg)] = source{module: module, pkg: pkg, coldT: "a minute"}
	}
	found := map[string]string{}
	for _, pkg := range packages {
		name := toolName(pkg)
		if found[name], err = b.binary(ctx, name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// tools returns the packages that the module's go.mod lists as tools.
func (b *builder) tools(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	cmd.Dir = b.module
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("in %s: go mod edit -json: %w", b.module, err)
	}
	var mod struct{ Tool []struct{ Path string } }
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("in %s: go mod edit -json: %w", b.module, err)
	}
	var packages []string
	for _, tool := range mod.Tool {
		packages = append(packages, tool.Path)
	}
	return packages, nil
}

// toolName returns the name that go build gives to the binary of a package.
func toolName(pkg string) string {
	if name := path.Base(pkg); !majorVersion.MatchString(name) {
		return name
	}
	return path.Base(path.Dir(pkg))
}
