package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// builder builds binaries into one cache directory.
type builder struct {
	log    io.Writer
	module string   // directory of the module that pins the versions
	cache  string   // directory of the binaries; named after all that decides about their content
	flags  []string // of go build

	sources map[string]source
}

func newBuilder(log io.Writer) (*builder, error) {
	module, err := findModule()
	if err != nil {
		return nil, err
	}
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return nil, err
	}
	version, err := kubernetesVersion(mod)
	if err != nil {
		return nil, fmt.Errorf("%s/go.mod: %w", module, err)
	}
	flags := buildFlags(version)
	cache, err := cacheDir(version, bytes.Join([][]byte{mod, sum, []byte(strings.Join(flags, " "))}, nil))
	if err != nil {
		return nil, err
	}
	return &builder{log: log, module: module, cache: cache, flags: flags, sources: sources}, nil
}

// findModule finds hack/controlplane/build from the working directory upwards, as
// tests, the demo and make run inside the repository, or else beside this file.
func findModule() (string, error) {
	const module = "hack/controlplane/build"
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if candidate := filepath.Join(dir, module); isFile(filepath.Join(candidate, "go.mod")) {
			return candidate, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if candidate := filepath.Join(filepath.Dir(file), "build"); isFile(filepath.Join(candidate, "go.mod")) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("no %s/go.mod in %s or above it: run inside the repository, or set %s", module, wd, envAssets)
}

var kubernetesLine = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)\b`)

// kubernetesVersion returns the version of k8s.io/kubernetes that a go.mod requires.
func kubernetesVersion(mod []byte) ([]string, error) {
	m := kubernetesLine.FindSubmatch(mod)
	if m == nil {
		return nil, errors.New("requires no k8s.io/kubernetes vX.Y.Z")
	}
	return []string{string(m[1]), string(m[2]), string(m[3])}, nil
}

// buildFlags makes the binaries report the version that they are: clients ask for
// it, and the API server's feature gates compare with it.
func buildFlags(version []string) []string {
	const pkg = "k8s.io/component-base/version."
	return []string{"-trimpath", "-ldflags", fmt.Sprintf("-s -w -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s",
		pkg, version[0], pkg, version[1], pkg, version[2])}
}

// cacheDir is the directory for binaries that are built from content.
func cacheDir(version []string, content []byte) (string, error) {
	base := os.Getenv(envCache)
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory: %w; set %s", err, envCache)
		}
		base = filepath.Join(user, "servingcert")
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return filepath.Join(base, fmt.Sprintf("controlplane-%s-%s-%s-%x", version[0], runtime.GOOS, runtime.GOARCH, sum[:6])), nil
}

// binary returns the path of a binary in the cache and builds it if it is not there.
func (b *builder) binary(ctx context.Context, name string) (string, error) {
	path := filepath.Join(b.cache, name)
	if isExecutable(path) {
		return path, nil
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isExecutable(path) { // built by the one who had the lock
		return path, nil
	}
	return path, b.build(ctx, name, path)
}

// build builds under another name and renames: a binary in the cache is whole.
func (b *builder) build(ctx context.Context, name, path string) error {
	src := b.sources[name]
	fmt.Fprintf(b.log, "building %s, about %s the first time … ", name, src.coldT)
	start := time.Now()
	tmp := path + ".tmp"
	defer os.Remove(tmp)
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, b.flags, []string{"-o", tmp, src.pkg})...)
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		fmt.Fprintln(b.log, "failed")
		return fmt.Errorf("in %s: go build %s: %w\n%s", b.module, src.pkg, err, bytes.TrimSpace(out))
	}
	fmt.Fprintf(b.log, "done in %.0f s\n", time.Since(start).Seconds())
	return os.Rename(tmp, path)
}

// lock holds the cache directory against other processes; the kernel gives it back
// when this one dies.
func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.cache, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for told := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if !told {
			fmt.Fprintf(b.log, "waiting for another process that builds into %s\n", b.cache)
			told = true
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}
