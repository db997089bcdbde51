package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Change changes one file of a module that a binary is built from.
type Change struct {
	Module string
	File   string // its path in the module
	// Apply returns the new content. If it is equal to the old one, the binary is built unchanged.
	Apply func(content string) (string, error)
}

// BuildChanged builds a named binary (Kubelet, …) into the file out, from the pinned modules with
// one changed file. The first time, all packages of that file's module are compiled.
func BuildChanged(ctx context.Context, log io.Writer, name string, change Change, out string) error {
	b, err := newBuilder(log, sources[name].module)
	if err != nil {
		return err
	}
	return b.buildChanged(ctx, name, change, out)
}

// buildChanged builds from a copy of the module: Go's module cache does not support overlays.
func (b *builder) buildChanged(ctx context.Context, name string, change Change, out string) error {
	module, err := download(ctx, b.module, change.Module)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(module, change.File))
	if err != nil {
		return err
	}
	changed, err := change.Apply(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(change.File), err)
	}
	if changed == string(content) {
		return b.compile(ctx, b.sources[name].pkg, out)
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(b.cache, ".changed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // any rest stays in the cache
	copied := filepath.Join(work, "module")
	if err := linkTree(copied, module); err != nil {
		return err
	}
	file := filepath.Join(copied, change.File) // may be a hard link to the original
	if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte(changed), 0o600)); err != nil {
		return err
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(b.module, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, file), content, 0o600); err != nil {
			return err
		}
	}
	if _, err := goCommand(ctx, work, "mod", "edit", "-replace="+change.Module+"="+copied); err != nil {
		return err
	}
	return b.compile(ctx, b.sources[name].pkg, out, "-modfile", filepath.Join(work, "go.mod"))
}

// linkTree creates a directory with hard links to the files of another one.
func linkTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(name, 0o755)
		}
		if os.Link(path, name) == nil {
			return nil
		}
		content, err := os.ReadFile(path) // on another file system
		if err != nil {
			return err
		}
		return os.WriteFile(name, content, 0o600)
	})
}
