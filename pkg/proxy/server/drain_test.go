package server

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

func newTestLog(w io.Writer) *limitedLog {
	return newLimitedLog(slog.New(slog.NewTextHandler(w, nil)), time.Now)
}

// checkExposition requires that Prometheus reads the metrics.
func checkExposition(t *testing.T, text string) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	require.NotEmpty(t, families)
	for name, family := range families {
		require.True(t, strings.HasPrefix(name, "servingcert_proxy_"), name)
		require.NotEmpty(t, family.GetHelp(), name)
	}
}

// unready runs a Server without waiting for it.
func unready(t *testing.T, change func(*Config)) *world {
	checkLeaks(t)
	w := &world{t: t, logs: &lockedBuffer{}}
	cfg := Config{
		Upstream: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		Limits:   proxy.DefaultLimits(), Clock: time.Now, Log: slog.New(slog.NewTextHandler(w.logs, nil)),
	}
	cfg.Limits.MaxConnections, cfg.Limits.Drain = 100, 0
	change(&cfg)
	w.Server = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return w
}

var discard = slog.New(slog.DiscardHandler)

// A port that the program already uses is an error that names the port.
func TestPortThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer taken.Close()
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	s := New(Config{
		Ports: []proxy.Listen{{Name: strict, Port: port, Upstream: 1}}, CertDir: newVolume(t, newPair(t, 1)).dir,
		Limits: proxy.DefaultLimits(), Clock: time.Now, Log: discard,
	})
	err = s.Run(t.Context())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "--listen sc-tls-8080: cannot listen on port "+strconv.Itoa(int(port))+", is it a port of the program?")
}

// After a stop, the proxy accepts no connections, serves the busy ones, and ends as soon as they have ended.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	w := start(t, program(t, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		<-release
		_, _ = c.Write(make([]byte, 300_000))
	}), func(c *Config) { c.Limits.Drain = patience })
	c := w.tls(strict)
	_, err := io.WriteString(c, "x")
	require.NoError(t, err)
	silent := w.dial(strict)
	w.eventually("accepted", func() bool { return w.conns.len() == 2 && w.serving() == 1 })
	stopped := make(chan struct{})
	go func() {
		w.stop()
		close(stopped)
	}()
	b, err := io.ReadAll(silent)
	require.NoError(t, err)
	require.Empty(t, b, "a connection without a request is closed")
	_, err = net.Dial("tcp", w.address(strict))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	select {
	case <-stopped:
		require.Fail(t, "a connection was not waited for")
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	b, err = io.ReadAll(c)
	require.NoError(t, err)
	require.Len(t, b, 300_000)
	<-stopped // without the client's end: the program has ended its side
}

func TestDrainTime(t *testing.T) {
	w := start(t, program(t, echo), func(c *Config) { c.Limits.Drain = 300 * time.Millisecond })
	c := w.tls(strict)
	send(t, c, "ping")
	begun := time.Now()
	w.stop()
	require.GreaterOrEqual(t, time.Since(begun), 300*time.Millisecond)
	_, err := io.ReadAll(c)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

const (
	fewDescriptors = "SERVINGCERT_FEW_DESCRIPTORS"
	fewBundle      = "SERVINGCERT_FEW_DESCRIPTORS_CA_FILE" // for outbound ports
)

// A working client is served while silent connections use all descriptors. The test runs in a separate
// process with a limit of 60.
func TestDescriptorsUsedUp(t *testing.T) {
	if address := os.Getenv(fewDescriptors); address != "" {
		serveWithFewDescriptors(t, address)
		return
	}
	t.Run("inbound", func(t *testing.T) {
		useUpDescriptors(t, program(t, echo), "")
	})
	t.Run("outbound", func(t *testing.T) {
		svc := newService(t)
		svc.serve(svc.config(), echoTLS)
		useUpDescriptors(t, uint16(svc.server.Load()), svc.bundle)
	})
}

func useUpDescriptors(t *testing.T, program uint16, bundle string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorsUsedUp$", "-test.v")
	cmd.Env = append(os.Environ(), fewDescriptors+"="+strconv.Itoa(int(program)), fewBundle+"="+bundle)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	var address *net.TCPAddr
	for lines := bufio.NewReader(stdout); address == nil; {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, line)
		if after, ok := strings.CutPrefix(line, "listens at "); ok {
			address, err = net.ResolveTCPAddr("tcp", strings.TrimSpace(after))
			require.NoError(t, err)
		}
	}
	dial := func() *net.TCPConn {
		c, err := net.DialTCP("tcp", nil, address)
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		return c
	}
	var silent []net.Conn
	for range 150 {
		silent = append(silent, dial())
	}
	for range 10 {
		works := dial()
		send(t, works, "GET / HTTP/1.1\r\n\r\n")
		require.NoError(t, works.Close())
	}
	for _, c := range silent {
		_ = c.Close()
	}
	require.NoError(t, stdin.Close())
	out, err := io.ReadAll(stdout)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "%s", out)
}

func serveWithFewDescriptors(t *testing.T, program string) {
	number, err := strconv.ParseUint(program, 10, 16)
	require.NoError(t, err)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 60, Max: 60}))
	var w *world
	name := both
	if bundle := os.Getenv(fewBundle); bundle != "" {
		svc := &service{t: t, bundle: bundle}
		svc.server.Store(uint32(number))
		w, name = svc.outside(), waits
	} else {
		w = start(t, uint16(number), func(c *Config) { c.Limits.FirstByte = time.Minute })
	}
	_, _ = os.Stdout.WriteString("\nlistens at " + w.address(name) + "\n")
	_, _ = io.ReadAll(os.Stdin)
	require.Positive(t, w.of(name).counters.acceptErrors.Load())
	require.Positive(t, w.of(name).counters.evicted.Load())
}
