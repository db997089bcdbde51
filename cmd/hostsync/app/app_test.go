package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/internal/command"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/test/flood"
	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/rotatortest"
	"github.com/servingcert/servingcert/test/skip"
)

// programs are the programs that the test executable can run as.
var programs = process.Programs{"hostsync": Main}

func TestMain(m *testing.M) { programs.Main(m) }

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) (path string) {
		path = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good, bad := file("good", "stores:\n- name: web\n"), file("bad", "stores:\n- name: web\n  from: /from\n  kind: key\n")
	large := file("large", strings.Repeat("#", 1<<17))
	for args, want := range map[string]string{
		"":                                       `--config: "": must be a file`,
		"--once":                                 `--config: "": must be a file`,
		"check-config":                           `--config: "": must be a file`,
		"--config=/missing":                      "--config: open /missing: no such file or directory",
		"--config=" + dir:                        "--config: " + dir + ": is not a regular file",
		"--config=" + large:                      "--config: " + large + ": 65537 bytes: must be at most 65536",
		"--config=" + bad:                        "--config: " + bad + `: line 4: stores[0].kind: "key": must be one of pair, bundle`,
		"check-config --config=" + bad:           "--config: " + bad + `: line 4: stores[0].kind: "key": must be one of pair, bundle`,
		"--config=" + good:                       "--config: " + good + ": line 2: stores[0]: must have from, the directory of the certificate, unless --from is set",
		"--config=" + good + " --from=here":      `--from: "here": must be an absolute path`,
		"--config=" + good + " --dir=here":       `--dir: "here": must be an absolute path`,
		"--config=" + good + " --address=:1":     `--address: ":1": must be an IP address and a port`,
		"--config=" + good + " --address=[::]:0": `--address: "[::]:0": must be an IP address and a port`,
		"--config=" + good + " start":            `unexpected argument "start": only check-config, remove and ready are commands`,
		"--verbose":                              "unknown flag: --verbose",
		"ready --address=localhost:1":            `--address: "localhost:1": must be an IP address and a port`,
		"remove":                                 `--store: "": must be 1 to 63 lower-case letters`,
		"remove --store=../etc":                  `--store: "../etc": must be 1 to 63 lower-case letters`,
		"remove --store=.lock":                   `--store: ".lock": must be 1 to 63 lower-case letters`,
		"remove --store=/":                       `--store: "/": must be 1 to 63 lower-case letters`,
	} {
		code, stdout, stderr := call(strings.Fields(args)...)
		assert.Equal(t, command.ExitUsage, code, args)
		assert.Contains(t, stderr, "hostsync: "+want, args)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), args)
		assert.Empty(t, stdout, args)
	}
	code, help, _ := call("--help")
	require.Equal(t, command.ExitOK, code)
	for _, word := range []string{"check-config", "remove", "ready", "--config", "--dir", "--from", "--address", "--host", "--once", "--store", "--version"} {
		require.Contains(t, help, word)
	}
	code, text, _ := call("--version")
	require.Equal(t, command.ExitOK, code)
	require.True(t, strings.HasPrefix(text, "hostsync "))
	code, text, stderr := call("check-config", "--config="+good, "--from=/from/")
	require.Equal(t, command.ExitOK, code, stderr)
	require.Equal(t, "store web: pair from /from; action: none\n", text)
}

// TestConfigThatOthersCanWrite: it names programs that run as root.
func TestConfigThatOthersCanWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "..1/hosts.yaml") // as a kubelet makes a volume of a ConfigMap
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("stores: []\n"), 0o600))
	require.NoError(t, os.Symlink("..1", filepath.Join(dir, "..data")))
	link := filepath.Join(dir, "hosts.yaml")
	require.NoError(t, os.Symlink("..data/hosts.yaml", link))
	require.NoError(t, os.Chmod(dir, 0o777))
	refused := func(command ...string) string {
		_, _, stderr := call(append(command, "--config="+link)...)
		return stderr
	}
	const owner = "must be writable only by its owner"
	assert.NotContains(t, refused("--once"), owner, "a volume is writable for all, but its files are not")
	for _, mode := range []os.FileMode{0o620, 0o602} {
		require.NoError(t, os.Chmod(file, mode))
		assert.Contains(t, refused("--once"), fmt.Sprintf("--config: %s: has mode %#o: %s", link, mode, owner))
		assert.NotContains(t, refused("check-config"), owner, "it does nothing")
	}
	if os.Geteuid() != 0 {
		skip.Part(t, "gives a file to another user, which needs root")
		return
	}
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, os.Chown(file, 65534, -1))
	assert.Contains(t, refused("--once"), "--config: "+link+": user 65534 owns it: must belong to root")
}

func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, func(string) string { return "" }, &out, &err)
	return code, out.String(), err.String()
}

func TestHost(t *testing.T) {
	for _, c := range []struct{ flag, env, want string }{{"a", "b", "a"}, {"", "b", "b"}} {
		cfg := &Config{Dir: "/dir", Address: "[::1]:1", Host: c.flag}
		require.NoError(t, cfg.validate("ready", func(string) string { return c.env }))
		require.Equal(t, c.want, cfg.Host)
	}
}

// hostsync runs on every host, and linked packages use memory: it links neither package api nor clients.
func TestLinksNoClient(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "/pkg/hostfiles\n")
	for _, word := range []string{"k8s.io/", "prometheus/", "servingcert/pkg/api\n"} {
		require.NotContains(t, string(out), word)
	}
}

// The program maintains a store, reports its readiness, and ends on SIGTERM.
func TestProgram(t *testing.T) {
	base := t.TempDir()
	binary := programs.Path(t, "hostsync")
	from, dir, path := filepath.Join(base, "from"), filepath.Join(base, "dir"), filepath.Join(base, "etc", "cert")
	config := filepath.Join(base, "config")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "stores:\n- {name: web, path: %s}\n", path), 0o600))
	require.NoError(t, os.MkdirAll(path, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(path, "mine"), nil, 0o600))
	flags := []string{"--dir=" + dir, fmt.Sprint("--address=127.0.0.1:", process.PortFor(t, "127.0.0.1"))}
	keeping := append([]string{"--config=" + config, "--from=" + from}, flags...)
	// does runs the program to its end.
	does := func(want int, args ...string) (output string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		if want == command.ExitOK {
			require.NoError(t, err, "%s", out)
		}
		var exit *exec.ExitError
		if want != command.ExitOK {
			require.ErrorAs(t, err, &exit)
			require.Equal(t, want, exit.ExitCode(), "%s", out)
		}
		return string(out)
	}
	once := append([]string{"--once"}, keeping...)
	remove := append([]string{"remove", "--store=web"}, flags...)
	ready := append([]string{"ready"}, flags...)
	require.Contains(t, does(command.ExitError, once...), "store web: SourceMissing: "+from+": ")
	require.FileExists(t, filepath.Join(path, "mine"))
	ca := rotatortest.NewCA(t, 1, time.Now())
	files := hosttest.Files(t, ca, ca.Issue(t, time.Now(), "web.shop.svc"))
	hosttest.Write(t, from, files)
	does(command.ExitOK, once...)
	holds := func() {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(path, "tls.crt"))
		require.NoError(t, err)
		require.Equal(t, files.Cert, data)
	}
	holds()

	require.Contains(t, does(command.ExitError, ready...), "connection refused")
	cmd := exec.CommandContext(t.Context(), binary, keeping...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	says := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			out, _ := exec.CommandContext(t.Context(), binary, ready...).CombinedOutput()
			return strings.Contains(string(out), want)
		}, process.Soon, 20*time.Millisecond, want)
	}
	says("ok\n")
	t.Run("while its port is flooded", func(t *testing.T) {
		const connections = 200 // more than are accepted
		f := &flood.Flood{Target: strings.TrimPrefix(flags[1], "--address="), Connections: connections, Sends: flood.Header(1 << 20), Pause: time.Second}
		ctx, stop := context.WithCancel(t.Context())
		var flooding sync.WaitGroup
		flooding.Go(func() { f.Run(ctx) })
		defer flooding.Wait()
		defer stop()
		require.Eventually(t, func() bool { return f.Opened() >= connections }, process.Soon, 10*time.Millisecond)
		for range 5 {
			says("ok\n")
		}
		require.Eventually(t, func() bool { return f.Held() <= 64 }, process.Soon, 10*time.Millisecond, "connections are open")
	})
	files.Cert, files.Key = nil, nil
	hosttest.Write(t, from, files)
	says("hostsync: store web: SourceMissing: " + from + ": tls.crt and tls.key: must both exist; certificate ")
	require.FileExists(t, filepath.Join(path, "tls.crt"), "the installed files stay")
	require.Contains(t, does(command.ExitError, remove...), `--store: "web": another process has locked this store`)
	// A second process finds port and store in use. It logs this, and takes over when they are free.
	second := exec.CommandContext(t.Context(), binary, keeping...)
	log, err := os.Create(filepath.Join(base, "log"))
	require.NoError(t, err)
	defer log.Close()
	second.Stderr = log
	require.NoError(t, second.Start())
	t.Cleanup(func() { _ = second.Process.Kill() })
	logs := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(log.Name())
			return err == nil && strings.Contains(string(text), want)
		}, process.Soon, 20*time.Millisecond, want)
	}
	logs("metrics and readiness are not served, but stores are still maintained: free the address")
	logs("another process has locked this store; waiting for the lock")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.NotContains(t, stderr.String(), "PRIVATE")
	says("hostsync: store web: SourceMissing: ")
	logs("metrics and readiness are served")
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	require.NoError(t, second.Wait())

	require.Equal(t, "restored "+path+"\nremoved store web\n", does(command.ExitOK, remove...))
	require.FileExists(t, filepath.Join(path, "mine"))
	require.NoFileExists(t, filepath.Join(path, "tls.crt"))
	require.Contains(t, does(command.ExitError, remove...), `--store: "web": `+dir+" has no store of that name")
	// A foreign directory whose entries have the names of a store's.
	foreign := filepath.Join(dir, "web", "current")
	require.NoError(t, os.MkdirAll(foreign, 0o755))
	require.Contains(t, does(command.ExitError, remove...), `--store: "web": `+dir+" has no store of that name")
	require.DirExists(t, foreign)
}

// TestReadyTrustsNoAnswer: whatever has the port, which any user of the host may take before hostsync does, does not
// choose what root requests, or control root's terminal.
func TestReadyTrustsNoAnswer(t *testing.T) {
	followed := false
	answer := http.StatusFound
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed = followed || r.URL.Path != "/readyz"
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(answer)
		_, _ = io.WriteString(w, "ok \x1b]0;x\a\n")
	}))
	t.Cleanup(server.Close)
	c := &Config{Address: strings.TrimPrefix(server.URL, "http://")}
	var out strings.Builder
	require.Error(t, ready(c, &out))
	require.False(t, followed)
	answer = http.StatusOK
	require.NoError(t, ready(c, &out))
	require.Equal(t, "ok \ufffd]0;x\ufffd\n", out.String())
}

func TestOnceIsAnErrorIfInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &Config{Once: true, Dir: t.TempDir()}
	require.ErrorContains(t, c.keep(ctx, slog.New(slog.DiscardHandler)), "interrupted")
}
