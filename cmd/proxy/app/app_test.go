package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/internal/command"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// programs are the programs that the test executable can run as.
var programs = process.Programs{"proxy": Main}

func TestMain(m *testing.M) { programs.Main(m) }

func TestUsage(t *testing.T) {
	const web = "--listen=sc-tls-8080=9443:8080"
	for _, c := range []struct {
		args string
		env  map[string]string
		want string
	}{
		{"", nil, "--listen: must be set at least once"},
		{"--listen=web=1:2", nil, `--listen: "web=1:2": "web" is not a valid name`},
		{"--listen=sc-tls-9443=9443:9443", nil, "--listen sc-tls-9443: the program's port 9443 is the port of --listen sc-tls-9443"},
		{web + " " + web, nil, "--listen sc-tls-8080: port 9443 is also used by --listen sc-tls-8080"},
		{web + " --admin-address=0.0.0.0:15443", nil, `--admin-address: "0.0.0.0:15443": must be a loopback IP address`},
		{web + " --admin-address=localhost:15443", nil, `--admin-address: "localhost:15443": must be a loopback IP address`},
		{web + " --cert-dir=", nil, `--cert-dir: ""`},
		{web + " --handshake-timeout=0s", nil, `--handshake-timeout: "0s": must be at least 1ms`},
		{web + " --max-connections=-1", nil, `--max-connections: "-1"`},
		{web + " extra", nil, `unexpected argument "extra"`},
		{web + " --verbose", nil, "unknown flag: --verbose"},
		{"--connect=127.0.0.1:80=api.shop.svc:443", nil, `--connect: "127.0.0.1:80=api.shop.svc:443": "127.0.0.1" is not a valid address`},
		{web + " --connect=127.1.0.1:9443=api.shop.svc:443", nil, "--connect api.shop.svc:9443: port 9443 is also used by --listen sc-tls-8080"},
		{"--connect=127.1.0.1:80=api.shop.svc:443 --ca-file=", nil, `--ca-file: "": must be a file`},
		{"--connect=127.1.0.1:80=api.shop.svc:443 --cluster-domain=x.", nil, `--cluster-domain: "x.": must be a domain`},
		{web + " --clients=/clients", nil, `--client-ca: "": must be a file, which verifies the clients in --clients`},
		{web + " --identity=/identity.pem", nil, "--identity: must be set with --connect, which presents it"},
		{"--check --admin-address=10.0.0.1:1", nil, `--admin-address: "10.0.0.1:1": must be a loopback IP address`},
		{web, map[string]string{"POD_IP": "web"}, `$POD_IP: "web": must be IP addresses`},
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(c.args), func(name string) string { return c.env[name] }, &stdout, &stderr)
		assert.Equal(t, command.ExitUsage, code, c.args)
		assert.Contains(t, stderr.String(), "proxy: "+c.want, c.args)
		assert.Equal(t, 1, strings.Count(stderr.String(), "\n"))
		assert.Empty(t, stdout.String())
	}
	var stdout bytes.Buffer
	require.Equal(t, command.ExitOK, run([]string{"--help"}, os.Getenv, &stdout, io.Discard))
	for _, flag := range []string{"--listen", "--connect", "--cert-dir", "--ca-file", "--cluster-domain", "--identity", "--client-ca", "--clients", "--check", "--admin-address", "--max-connections", "--handshake-timeout", "--first-byte-timeout", "--idle-timeout", "--drain-time", "--version"} {
		require.Contains(t, stdout.String(), flag)
	}
	stdout.Reset()
	require.Equal(t, command.ExitOK, run([]string{"--version"}, os.Getenv, &stdout, io.Discard))
	require.True(t, strings.HasPrefix(stdout.String(), "proxy "))
}

func TestUpstream(t *testing.T) {
	for _, c := range []struct {
		ips, ip string
		want    string
	}{
		{"", "", "[127.0.0.1 ::1]"},
		{"", "10.0.0.1", "[127.0.0.1 ::1 10.0.0.1]"},
		{"10.0.0.1,fd00::1", "10.0.0.1", "[127.0.0.1 ::1 10.0.0.1 fd00::1]"},
	} {
		cfg := &Config{Listen: []string{"sc-tls-8080=9443:8080"}, CertDir: "x", ClusterDomain: "cluster.local", AdminAddress: "[::1]:1", Limits: proxy.DefaultLimits()}
		require.NoError(t, cfg.validate(func(name string) string { return map[string]string{"POD_IPS": c.ips, "POD_IP": c.ip}[name] }))
		require.Equal(t, c.want, fmt.Sprint(cfg.upstream))
	}
}

func TestMemoryLimit(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "2"), filepath.Join(dir, "1")}
	require.Zero(t, memoryLimit(files))
	for text, want := range map[string]uint64{"max\n": 0, "33554432\n": 32 << 20, "9223372036854771712\n": 0, "garbage": 0} {
		require.NoError(t, os.WriteFile(files[1], []byte(text), 0o600))
		require.Equal(t, want, memoryLimit(files), text)
	}
	require.NoError(t, os.WriteFile(files[0], []byte("1048576\n"), 0o600))
	require.EqualValues(t, 1<<20, memoryLimit(files))
}

// The proxy serves, also after it was killed and restarted in front of a running program, and ends on SIGTERM.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	binary := programs.Path(t, "proxy")
	program, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer program.Close()
	go func() {
		for {
			c, err := program.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	writePair(t, dir)
	port, admin := int(process.PortFor(t, "")), int(process.PortFor(t, ""))
	start := func() (cmd *exec.Cmd, stderr *bytes.Buffer) {
		cmd, stderr = exec.Command(binary, fmt.Sprintf("--listen=sc-tls-web=%d:%d", port, program.Addr().(*net.TCPAddr).Port), "--cert-dir="+dir, fmt.Sprintf("--admin-address=127.0.0.1:%d", admin)), &bytes.Buffer{}
		cmd.Stderr = stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		require.Eventually(t, func() bool {
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin))
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		}, process.Soon, 20*time.Millisecond)
		return cmd, stderr
	}
	served := func() {
		t.Helper()
		c, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // any certificate
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "ping")
		require.NoError(t, err)
		b := make([]byte, 4)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		require.Equal(t, "ping", string(b))
	}
	cmd, _ := start()
	served()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	cmd, stderr := start()
	served()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), stderr)

	cmd, _ = start()
	second := exec.Command(binary, cmd.Args[1:]...) // on a port in use
	out, err := second.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, command.ExitError, second.ProcessState.ExitCode())
	require.Contains(t, string(out), "--admin-address: ")
	second = exec.Command(binary, append(cmd.Args[1:], fmt.Sprintf("--admin-address=127.0.0.1:%d", int(process.PortFor(t, ""))))...)
	out, err = second.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), fmt.Sprintf("proxy: --listen sc-tls-web: cannot listen on port %d, is it a port of the program?", port))
}

func writePair(t *testing.T, dir string) {
	ca, err := certs.New(dir, "ca", "test")
	require.NoError(t, err)
	_, err = ca.Issue("tls", &x509.Certificate{})
	require.NoError(t, err)
}
