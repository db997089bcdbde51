package controlplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
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
	module string   // directory of the module
	cache  string   // directory of the binaries; its name contains a hash of all inputs
	flags  []string // of go build

	sources map[string]source
}

func newBuilder(log io.Writer, module string) (*builder, error) {
	dir, err := findModule(module)
	if err != nil {
		return nil, err
	}
	content, err := moduleContent(dir)
	if err != nil {
		return nil, err
	}
	version := kubernetesVersion(content)
	flags := append(buildFlags(version), moduleFlags[module]...)
	cache, err := cacheDir(filepath.Base(module), version, append(content, strings.Join(flags, " ")...))
	if err != nil {
		return nil, err
	}
	return &builder{log: log, module: dir, cache: cache, flags: flags, sources: sources}, nil
}

// findModule finds a module of this repository from the working directory upwards, or
// otherwise from the directory of this file.
func findModule(module string) (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	starts := []string{wd}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if candidate := filepath.Join(dir, module); isFile(filepath.Join(candidate, "go.mod")) {
				return candidate, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("no %s/go.mod in %s or above it: run inside the repository", module, wd)
}

// moduleContent returns the inputs of a module's binaries: its requirements and its code.
func moduleContent(dir string) ([]byte, error) {
	var code []string
	for _, pattern := range []string{"*.go", "*/*.go"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		code = append(code, files...)
	}
	var content []byte
	for _, file := range append([]string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")}, code...) {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		content = append(content, data...)
	}
	return content, nil
}

var kubernetesLine = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)\b`)

// kubernetesVersion returns the version of k8s.io/kubernetes that a go.mod requires,
// its major and its minor version; nil if it requires none.
func kubernetesVersion(mod []byte) []string {
	m := kubernetesLine.FindSubmatch(mod)
	if m == nil {
		return nil
	}
	return []string{string(m[1]), string(m[2]), string(m[3])}
}

// buildFlags returns flags that set the version of Kubernetes' binaries: clients request it,
// and the API server's feature gates depend on it.
func buildFlags(version []string) []string {
	const pkg = "k8s.io/component-base/version."
	flags := "-s -w"
	if version != nil {
		flags += fmt.Sprintf(" -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s",
			pkg, version[0], pkg, version[1], pkg, version[2])
	}
	return []string{"-trimpath", "-ldflags", flags}
}

// CacheDir returns the directory for files that are slow to build:
// $SERVINGCERT_CONTROLPLANE_CACHE, or servingcert in the user's cache directory.
func CacheDir() (string, error) {
	base := os.Getenv(envCache)
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory: %w; set %s", err, envCache)
		}
		base = filepath.Join(user, "servingcert")
	}
	return filepath.Abs(base)
}

// cacheDir returns the directory of the binaries that a module builds from content.
func cacheDir(module string, version []string, content []byte) (string, error) {
	base, err := CacheDir()
	if err != nil {
		return "", err
	}
	if version != nil {
		module = "kubernetes-" + version[0]
	}
	sum := sha256.Sum256(content)
	return filepath.Join(base, fmt.Sprintf("%s-%s-%s-%x", module, runtime.GOOS, runtime.GOARCH, sum[:6])), nil
}

// binary returns the path of a binary in the cache, and builds it if it does not exist.
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
	if isExecutable(path) { // built by the previous holder of the lock
		return path, nil
	}
	return path, b.build(ctx, name, path)
}

// build builds a binary under a temporary name and renames it, so that the cache has no partial files.
func (b *builder) build(ctx context.Context, name, path string) error {
	src := b.sources[name]
	fmt.Fprintf(b.log, "building %s, about %s the first time … ", name, src.coldT)
	start := time.Now()
	tmp := path + ".tmp"
	defer os.Remove(tmp)
	var err error
	if change, ok := changes[name]; ok {
		err = b.buildChanged(ctx, name, change, tmp)
	} else {
		err = b.compile(ctx, src.pkg, tmp)
	}
	if err != nil {
		fmt.Fprintln(b.log, "failed")
		return err
	}
	fmt.Fprintf(b.log, "done in %.0f s\n", time.Since(start).Seconds())
	return os.Rename(tmp, path)
}

// compile builds a package into a file.
func (b *builder) compile(ctx context.Context, pkg, out string, more ...string) error {
	_, err := goCommand(ctx, b.module, slices.Concat([]string{"build"}, b.flags, more, []string{"-o", out, pkg})...)
	return err
}

// goEnv returns the environment of a build, without the user's settings for other builds. With
// this GOGC, the compilers use a sixth less CPU time.
func goEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-trimpath", "GOGC=400")
}

// lock locks the cache directory against other processes. The kernel releases the lock if this one dies.
func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.cache, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for reported := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if !reported {
			fmt.Fprintf(b.log, "waiting for another process that builds in %s\n", b.cache)
			reported = true
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}
