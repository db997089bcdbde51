package controlplane

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/test/skip"
)

func TestAssetsOfTheUserWin(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{Etcd, KubeAPIServer} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	t.Setenv(envAssets, dir)

	var log bytes.Buffer
	found, err := Binaries(t.Context(), &log, Etcd, KubeAPIServer)
	require.NoError(t, err)
	require.Equal(t, map[string]string{Etcd: filepath.Join(dir, Etcd), KubeAPIServer: filepath.Join(dir, KubeAPIServer)}, found)
	require.Empty(t, log.String())

	_, missing, err := assets(dir, []string{Etcd, Kubelet})
	require.NoError(t, err)
	require.Equal(t, []string{Kubelet}, missing, "not in envtest's archives")

	_, err = Binaries(t.Context(), &log, Kubectl)
	require.EqualError(t, err, "KUBEBUILDER_ASSETS="+dir+" has no executable kubectl; unset it to build the pinned version")
}

func TestBuildOnce(t *testing.T) {
	module, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte("module example.com/m\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(module, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	logs := make([]bytes.Buffer, 3)
	var wg sync.WaitGroup
	for i := range logs {
		b := &builder{log: &logs[i], module: module, cache: cache, sources: map[string]source{"m": {module, "example.com/m", "a second"}}}
		wg.Go(func() {
			path, err := b.binary(t.Context(), "m")
			assert.NoError(t, err)
			assert.Equal(t, filepath.Join(cache, "m"), path)
		})
	}
	wg.Wait()
	builds := 0
	for i := range logs {
		builds += strings.Count(logs[i].String(), "building m, about a second the first time … done in")
	}
	require.Equal(t, 1, builds)
	require.True(t, isExecutable(filepath.Join(cache, "m")))

	broken := &builder{log: &logs[0], module: module, cache: cache, sources: map[string]source{"n": {module, "example.com/n", "a second"}}}
	_, err := broken.binary(t.Context(), "n")
	require.ErrorContains(t, err, "in "+module+": go build ")
	require.ErrorContains(t, err, "example.com/n: exit status 1\n")
	require.NoFileExists(t, filepath.Join(cache, "n"))
}

func TestBuildChanged(t *testing.T) {
	dir := t.TempDir()
	write := func(file, content string) string {
		path := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	write("m/go.mod", "module example.com/m\n\ngo 1.26\n\nrequire example.com/lib v1.0.0\n")
	write("m/main.go", "package main\n\nimport \"example.com/lib\"\n\nfunc main() { print(lib.One()) }\n")
	const mod = "module example.com/lib\n\ngo 1.26\n"
	var archive bytes.Buffer
	files := zip.NewWriter(&archive)
	for name, content := range map[string]string{"go.mod": mod, "lib.go": "package lib\n\nfunc One() int { return 1 }\n"} {
		file, err := files.Create("example.com/lib@v1.0.0/" + name)
		require.NoError(t, err)
		_, err = io.WriteString(file, content)
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	write("proxy/example.com/lib/@v/v1.0.0.info", `{"Version":"v1.0.0"}`)
	write("proxy/example.com/lib/@v/v1.0.0.mod", mod)
	write("proxy/example.com/lib/@v/v1.0.0.zip", archive.String())
	t.Setenv("GOPROXY", "file://"+filepath.Join(dir, "proxy"))
	t.Setenv("GOSUMDB", "off")
	goIn := func(modules string, args ...string) {
		t.Setenv("GOMODCACHE", filepath.Join(dir, modules))
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join(dir, "m")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	goIn("before", "mod", "tidy") // writes go.sum
	goIn("before", "clean", "-modcache")
	goIn("modules", "version") // a machine without modules
	original := filepath.Join(dir, "modules/example.com/lib@v1.0.0/lib.go")
	defer goIn("modules", "clean", "-modcache") // they are read-only
	b := &builder{log: io.Discard, module: filepath.Join(dir, "m"), cache: filepath.Join(dir, "cache"), sources: map[string]source{"m": {"", "example.com/m", "a second"}}}
	out := filepath.Join(dir, "out")
	change := Change{Module: "example.com/lib", File: "lib.go", Apply: func(content string) (string, error) {
		return strings.Replace(content, "return 1", "return 2", 1), nil
	}}
	require.NoError(t, b.buildChanged(t.Context(), "m", change, out))
	said, err := exec.CommandContext(t.Context(), out).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "2", string(said))
	content, err := os.ReadFile(original)
	require.NoError(t, err)
	assert.Contains(t, string(content), "return 1", "the original module")
	left, err := os.ReadDir(b.cache)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestOwnVariableTypes: kube-apiserver is changed where it compiles all policies from one template,
// and nowhere else.
func TestOwnVariableTypes(t *testing.T) {
	const compiles = "\tfilterCompiler := cel.NewCompositedCompilerFromTemplate(compositionEnvTemplate)\n"
	changed, err := changes[KubeAPIServer].Apply("\t}\n" + compiles)
	require.NoError(t, err)
	require.Regexp(t, `(?s)^\t}\n\tcompositionEnvTemplate, err := cel\.NewCompositionEnv\(.*`+regexp.QuoteMeta(compiles)+"$", changed)
	const since = "\tcompiler, err := cel.NewCompositedCompiler(env)\n"
	changed, err = changes[KubeAPIServer].Apply(since)
	require.NoError(t, err)
	require.Equal(t, since, changed)
}

// envStarter makes this test binary start a control plane and wait until it is killed.
const envStarter = "SERVINGCERT_TEST_STARTER_DIR"

// TestKilledParentLeavesNothing runs a second process of the test binary, kills it, and looks for
// the components that it had started.
func TestKilledParentLeavesNothing(t *testing.T) {
	if dir := os.Getenv(envStarter); dir != "" {
		cp, err := Start(t.Context(), Options{Dir: dir})
		require.NoError(t, err)
		for _, pid := range cp.PIDs() {
			fmt.Printf("pid %d\n", pid)
		}
		fmt.Println("started")
		select {}
	}
	if runtime.GOOS != "linux" {
		skip.Now(t, "only Linux can kill a child when its parent is gone")
	}
	starter := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledParentLeavesNothing$")
	starter.Env = append(os.Environ(), envStarter+"="+t.TempDir())
	out, err := starter.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, starter.Start())
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "started"; {
		var pid int
		if _, err := fmt.Sscanf(lines.Text(), "pid %d", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	require.Len(t, pids, 2)
	require.NoError(t, starter.Process.Kill())
	require.Error(t, starter.Wait())
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !alive(pid) }, process.Soon, 10*time.Millisecond, "pid %d still runs", pid)
	}
}

// alive reports whether a process runs. A killed orphan may stay a zombie if no process reaps it.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
