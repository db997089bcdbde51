package images

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Build builds Go programs of this repository as static binaries into dir, named as
// their packages are (./cmd/signer becomes DIR/signer), and returns their paths.
// Packages are relative to the root of the repository; the working directory may be
// any below it.
func Build(ctx context.Context, dir string, packages ...string) ([]string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}
	cmd := exec.CommandContext(ctx, "go", slices.Concat(args, packages)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build %s: %w\n%s", strings.Join(packages, " "), err, bytes.TrimSpace(out))
	}
	var built []string
	for _, pkg := range packages {
		built = append(built, filepath.Join(dir, path.Base(pkg)))
	}
	return built, nil
}

// moduleRoot is the root of the repository.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w; run inside the repository", err)
	}
	return strings.TrimSpace(string(out)), nil
}
