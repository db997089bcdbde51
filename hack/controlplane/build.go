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

// findModule finds a module of this repository from the working directory upwards,
// as tests, the demo and make run inside the repository, or else from where this
// file is.
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

// moduleContent is all that decides about what a module builds: what it requires,
// and its own code if it has any.
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
// its major and its minor; nil if it requires none.
func kubernetesVersion(mod []byte) []string {
	m := kubernetesLine.FindSubmatch(mod)
	if m == nil {
		return nil
	}
	return []string{string(m[1]), string(m[2]), string(m[3])}
}

// buildFlags makes Kubernetes' binaries report the version that they are: clients
// ask for it, and the API server's feature gates compare with it.
func buildFlags(version []string) []string {
	const pkg = "k8s.io/component-base/version."
	flags := "-s -w"
	if version != nil {
		flags += fmt.Sprintf(" -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s",
			pkg, version[0], pkg, version[1], pkg, version[2])
	}
	return []string{"-trimpath", "-ldflags", flags}
}

// CacheDir is the directory that keeps what takes long to make, and is made again when
// it is not there: $SERVINGCERT_CONTROLPLANE_CACHE, or servingcert in the user's cache
// directory.
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

// cacheDir is the directory for binaries that a module builds from content.
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
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, b.flags, more, []string{"-o", out, pkg})...)
	cmd.Dir, cmd.Env = b.module, goEnv()
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("in %s: go build %s: %w\n%s", b.module, pkg, err, bytes.TrimSpace(said))
	}
	return nil
}

// goEnv is the environment of a build: what the user set for builds of their own does not
// count. Compilers that collect garbage less often take a sixth less CPU.
func goEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOGC=400")
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
