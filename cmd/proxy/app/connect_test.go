package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/cmd/internal/command"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/test/skip"
)

// The proxy does not start if it would look up Services in /etc/hosts.
func TestNameService(t *testing.T) {
	c := &Config{connects: []proxy.Connect{{Name: "api.shop.svc:80"}}}
	file := filepath.Join(t.TempDir(), "nsswitch.conf")
	err := c.serve(t.Context(), file, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "--connect: ")
	require.NoError(t, os.WriteFile(file, []byte("hosts: files dns\n"), 0o600))
	err = c.serve(t.Context(), file, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "--connect: "+file+": must only contain hosts: dns")
}

func TestCheck(t *testing.T) {
	status := http.StatusOK
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := &http.Server{ReadHeaderTimeout: process.Soon, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/readyz":
			w.WriteHeader(http.StatusNotFound)
		case status == 0: // no answer
			<-r.Context().Done()
		default:
			http.Error(w, "waiting for a CA bundle", status)
		}
	})}
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(func() { _ = served.Close() })
	asked := func() (code int, errors string) {
		var stdout, stderr bytes.Buffer
		code = run([]string{"--check", "--admin-address=" + listener.Addr().String()}, os.Getenv, &stdout, &stderr)
		require.Empty(t, stdout.String())
		return code, stderr.String()
	}
	code, text := asked()
	require.Equal(t, command.ExitOK, code, text)
	status = http.StatusServiceUnavailable
	code, text = asked()
	require.Equal(t, command.ExitError, code)
	require.Equal(t, "proxy: the proxy is not ready: waiting for a CA bundle\n", text)
	status = 0
	code, text = asked()
	require.Equal(t, command.ExitError, code)
	require.Contains(t, text, "proxy: no proxy answers at "+listener.Addr().String())
	require.NoError(t, served.Close())
	code, text = asked()
	require.Equal(t, command.ExitError, code)
	require.Contains(t, text, "connection refused")
}

const inPod = "SERVINGCERT_IN_POD"

// The program in what it sees of a pod: /etc/hosts leads from 50 Services to the proxy, from one of them by IPv6 too, and
// DNS to that one. The test runs in a process with a network and mounts of its own.
func TestInAPod(t *testing.T) {
	if os.Getenv(inPod) != "" {
		connectInPod(t)
		return
	}
	runtime.LockOSThread() // Pdeathsig means the thread that forks
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0], "-test.run=^TestInAPod$", "-test.v")
	cmd.Env = append(os.Environ(), inPod+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		skip.Now(t, "the machine allows no namespaces of users: "+err.Error())
	}
	require.NoError(t, err, "%s", out)
}

var serviceIP = netip.MustParseAddr("10.96.0.10")

// setUpPod gives the network the address of the Service, and mounts the files of the pod.
func setUpPod(t *testing.T, dir string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	up.SetUint16(unix.IFF_UP | unix.IFF_LOOPBACK | unix.IFF_RUNNING)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up))
	address, err := unix.NewIfreq("lo:1")
	require.NoError(t, err)
	require.NoError(t, address.SetInet4Addr(serviceIP.AsSlice()))
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFADDR, address))
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for name, content := range map[string]string{
		"hosts":         "127.0.0.1 localhost\n127.1.0.1 api api.shop api.shop.svc api.shop.svc.cluster.local\n",
		"resolv.conf":   "nameserver " + serviceIP.String() + "\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
		"nsswitch.conf": "hosts: files dns\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		require.NoError(t, unix.Mount(file, "/etc/"+name, "", unix.MS_BIND, ""))
	}
}

// serveDNS answers that the Service has its address, and no other name any.
func serveDNS(t *testing.T) {
	socket, err := net.ListenPacket("udp", netip.AddrPortFrom(serviceIP, 53).String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	const asked = "\x03api\x04shop\x03svc\x07cluster\x05local\x00"
	go func() {
		for b := make([]byte, 512); ; {
			n, from, err := socket.ReadFrom(b)
			if err != nil {
				return
			}
			end := 12 + len(asked) + 4 // of the question
			if n < end || string(b[12:12+len(asked)]) != asked {
				continue
			}
			answer := slices.Concat(b[:2], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, b[12:end])
			if binary.BigEndian.Uint16(b[end-4:]) == 1 { // A
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4)
				answer = append(answer, serviceIP.AsSlice()...)
			}
			_, _ = socket.WriteTo(answer, from)
		}
	}()
}

func connectInPod(t *testing.T) {
	dir := t.TempDir()
	setUpPod(t, dir)
	serveDNS(t)
	ca, err := certs.New(dir, "ca", "test")
	require.NoError(t, err)
	_, err = ca.Issue("tls", &x509.Certificate{DNSNames: []string{"api.shop.svc"}})
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	listener, err := net.Listen("tcp", netip.AddrPortFrom(serviceIP, 443).String())
	require.NoError(t, err)
	api := &http.Server{
		ReadHeaderTimeout: process.Soon, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s %s %t", r.Host, r.Proto, r.TLS != nil)
		}),
	}
	go func() { _ = api.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = api.Close() })

	binary := programs.Path(t, "proxy")
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	args := []string{"--connect=127.1.0.1:80=api.shop.svc:443,http", "--connect=[::1]:81=api.shop.svc:443,http", "--ca-file=" + bundle}
	listening := []string{"127.1.0.1:80", "[::1]:81"}
	for i := range 49 {
		for port := 90; port < 95; port++ {
			listening = append(listening, fmt.Sprintf("127.1.0.%d:%d", i+2, port))
			args = append(args, fmt.Sprintf("--connect=%s=other%d.shop.svc:443", listening[len(listening)-1], i))
		}
	}
	out, err := exec.Command(binary, args...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "proxy: --connect: /etc/nsswitch.conf: must only contain hosts: dns")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "nsswitch.conf"), []byte("hosts: dns\n"), 0o600))
	check := func() (code int, text string) {
		cmd := exec.Command(binary, "--check")
		out, err := cmd.CombinedOutput()
		require.Equal(t, err == nil, cmd.ProcessState.ExitCode() == command.ExitOK)
		return cmd.ProcessState.ExitCode(), string(out)
	}
	code, text := check()
	require.Equal(t, command.ExitError, code)
	require.Contains(t, text, "proxy: no proxy answers at 127.0.0.1:15443")
	cmd, stderr := exec.Command(binary, args...), &bytes.Buffer{}
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		code, text := check()
		require.Equal(t, command.ExitError, code)
		return text == "proxy: the proxy is not ready: not listening: waiting for a certificate or a CA bundle, or stopping\n"
	}, process.Soon, process.Tick)
	require.NoError(t, os.Link(filepath.Join(dir, "ca.crt"), bundle))
	require.Eventually(t, func() bool {
		code, _ := check()
		return code == command.ExitOK
	}, process.Soon, process.Tick)

	for _, address := range listening {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	for _, address := range listening[:2] {
		client := &http.Client{Timeout: process.Soon, Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, address) // as the program reads in /etc/hosts
			},
		}}
		response, err := client.Get("http://api/")
		require.NoError(t, err, stderr)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, "api HTTP/1.1 true", string(body))
		client.CloseIdleConnections()
	}
	begun := time.Now()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), stderr)
	require.Less(t, time.Since(begun), process.Soon)
}
