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

// Build builds Go programs of one module of this repository into dir, as static binaries for this
// machine (./cmd/signer becomes DIR/signer), and returns their paths. Packages are relative to the
// root of the repository; the working directory may be anywhere in it.
func Build(ctx context.Context, dir string, packages ...string) ([]string, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	return build(ctx, root, dir, "-s -w", nil, packages)
}

// Platform is the target of a build, with the version of a release.
type Platform struct {
	OS, Arch string // GOOS, GOARCH
	Version  string // of the release, printed by --version
}

// versionVariable is the variable of cmd/internal/version with the version of a release.
const versionVariable = "github.com/servingcert/servingcert/cmd/internal/version.release"

// Build builds programs of the repository at root like the function Build, but for a release: equal
// sources give equal binaries, independent of environment variables. For Windows, they are named NAME.exe.
func (p Platform) Build(ctx context.Context, root, dir string, packages ...string) ([]string, error) {
	return build(ctx, root, dir, "-s -w -X "+versionVariable+"="+p.Version, []string{
		"GOOS=" + p.OS, "GOARCH=" + p.Arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-buildvcs=true", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", "GOTOOLCHAIN=local", "GODEBUG=",
	}, packages)
}

func build(ctx context.Context, root, dir, ldflags string, env, packages []string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	args := []string{"build", "-trimpath", "-ldflags", ldflags, "-o", dir + string(filepath.Separator)}
	for _, pkg := range packages {
		args = append(args, filepath.Join(root, pkg))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = moduleOf(root, packages[0])
	cmd.Env = slices.Concat(os.Environ(), []string{"CGO_ENABLED=0"}, env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build %s: %w\n%s", strings.Join(packages, " "), err, bytes.TrimSpace(out))
	}
	suffix := ""
	if slices.Contains(env, "GOOS=windows") {
		suffix = ".exe"
	}
	var built []string
	for _, pkg := range packages {
		built = append(built, filepath.Join(dir, path.Base(pkg)+suffix))
	}
	return built, nil
}

// repository returns the root of the repository that contains the working directory, which may be in
// a nested module.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for below := dir; ; below = filepath.Dir(below) {
		if _, err := os.Stat(filepath.Join(below, ".ci", "run")); err == nil {
			return below, nil
		}
		if below == filepath.Dir(below) {
			return "", fmt.Errorf("%s is not in the repository: no parent directory contains .ci/run", dir)
		}
	}
}

// moduleOf returns the directory of the module of a package.
func moduleOf(root, pkg string) string {
	for dir := filepath.Join(root, pkg); dir != root; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return root
}
