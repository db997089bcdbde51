package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Change is another content for one file of a package that a binary is built from.
type Change struct {
	Package, File string
	// Apply returns the new content.
	Apply func(content string) (string, error)
}

// BuildChanged builds a named binary (Kubelet, …) from the sources that are pinned but for
// one file, into out. The build is otherwise the one of Binaries, so that Go's build cache
// has all packages that do not depend on the file.
func BuildChanged(ctx context.Context, log io.Writer, name string, change Change, out string) error {
	b, err := newBuilder(log, sources[name].module)
	if err != nil {
		return err
	}
	return b.buildChanged(ctx, name, change, out)
}

func (b *builder) buildChanged(ctx context.Context, name string, change Change, out string) error {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", change.Package)
	list.Dir, list.Env = b.module, goEnv()
	dir, err := list.Output()
	if err != nil {
		return fmt.Errorf("in %s: go list %s: %w", b.module, change.Package, err)
	}
	file := filepath.Join(strings.TrimSpace(string(dir)), change.File)
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := change.Apply(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	work, err := os.MkdirTemp("", "servingcert-changed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // what is left is in the system's directory for that
	replacement, overlay := filepath.Join(work, change.File), filepath.Join(work, "overlay.json")
	if err := os.WriteFile(replacement, []byte(changed), 0o600); err != nil {
		return err
	}
	paths, err := json.Marshal(map[string]any{"Replace": map[string]string{file: replacement}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, paths, 0o600); err != nil {
		return err
	}
	return b.compile(ctx, b.sources[name].pkg, out, "-overlay", overlay)
}
