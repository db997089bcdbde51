//go:build unix && examples

package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/demo/kubelet"
	hackprocess "github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const host = "web.shop.svc"

// authority is a CA of two generations. The second signs, and clients trust only the root of the first:
// they accept a certificate only if the cross-certificate is served too.
type authority struct {
	first, second rotatortest.CA
	cross         *x509.Certificate
}

func newCA(t *testing.T) authority {
	now := time.Now()
	ca := authority{first: rotatortest.NewCA(t, 1, now), second: rotatortest.NewCA(t, 2, now)}
	cross, err := pki.NewCross(ca.second.Root, ca.first.Root, ca.first.Key, now.Add(-time.Hour))
	require.NoError(t, err)
	ca.cross = cross
	return ca
}

// pair is the content of a Secret.
type pair struct {
	leaf      *x509.Certificate
	cert, key []byte
}

// issue returns a pair with a new key, valid for an hour.
func (ca authority) issue(t *testing.T, algorithm pki.KeyAlgorithm) pair {
	key, err := pki.GenerateKey(algorithm)
	require.NoError(t, err)
	leaf := ca.second.Sign(t, key, time.Now(), host).Leaf
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	return pair{leaf, pki.EncodeCertificates(leaf, ca.cross), keyPEM}
}

func (p pair) serial() string { return p.leaf.SerialNumber.Text(16) }

func (p pair) isServed(serial string) bool { return serial == p.serial() }

// write writes the pair to the volume, as the kubelet does.
func (p pair) write(t *testing.T, volume string) {
	require.NoError(t, kubelet.Write(volume, map[string]kubelet.File{"tls.crt": {Data: p.cert, Mode: 0o444}, "tls.key": {Data: p.key, Mode: 0o444}}))
}

// process is a running server.
type process struct {
	ended chan struct{} // closed when it has exited

	mu  sync.Mutex
	out bytes.Buffer
}

// Write receives the server's output.
func (p *process) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(data)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start runs a command, with its children, until the test ends.
func start(t *testing.T, command, env []string) *process {
	p := &process{ended: make(chan struct{})}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = p, p
	cmd.WaitDelay = time.Second // a child may keep the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		assert.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
		<-p.ended
		if t.Failed() {
			t.Logf("the server's output:\n%s", p.output())
		}
	})
	return p
}

func freePort(t *testing.T) string { return fmt.Sprint(hackprocess.PortFor(t, "127.0.0.1")) }

// limit is the timeout of an example, which reads its files every 2 s on a possibly busy machine.
const limit = 2 * time.Minute

// pace is the interval of polling.
const pace = 50 * time.Millisecond

// scene is a running example, and a client that uses a new connection for each request and verifies the
// server's name.
type scene struct {
	ctx    context.Context
	ca     authority
	volume string
	served pair // at first
	server *process
	addr   string
	client http.Client
}

// newScene starts the example and waits until the first request is answered.
func newScene(t *testing.T, e example, pass passFiles) *scene {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	port := freePort(t)
	s := &scene{ctx: ctx, ca: newCA(t), volume: filepath.Join(t.TempDir(), "servingcert"), addr: "127.0.0.1:" + port}
	s.served = s.ca.issue(t, pki.ECDSAP256)
	s.served.write(t, s.volume)
	args, env := pass(filepath.Join(s.volume, "tls.crt"), filepath.Join(s.volume, "tls.key"))
	s.server = start(t, append(e.run(t, e.copyTo(t, port)), args...), env)

	roots := x509.NewCertPool()
	roots.AddCert(s.ca.first.Root)
	s.client.Transport = &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
	}
	s.waitUntilUp(t)
	require.Equal(t, s.served.serial(), s.get(t))
	return s
}

func (s *scene) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
}

// waitUntilUp waits for the server to listen.
func (s *scene) waitUntilUp(t *testing.T) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		conn, err := s.dial(s.ctx)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-s.server.ended:
			require.Fail(t, "the server has ended")
		case <-s.ctx.Done():
			require.Fail(t, "the server does not listen", "%v", err)
		}
	}
}

// getUntil makes requests until the state is reached. None may fail.
func (s *scene) getUntil(t *testing.T, state string, reached func(serial string) bool) {
	t.Helper()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for !reached(s.get(t)) {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			require.Fail(t, "timeout", "waiting for: %s", state)
		}
	}
}

// get makes a request and returns the serial number of the leaf that was served.
func (s *scene) get(t *testing.T) string {
	t.Helper()
	serial, err := s.request()
	require.NoError(t, err)
	select {
	case <-s.server.ended:
		require.Fail(t, "the server has ended")
	default:
	}
	return serial
}

func (s *scene) request() (serial string, err error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "https://"+host+"/", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if string(body) != "served\n" {
		return "", fmt.Errorf("answered %s: %q", resp.Status, body)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Text(16), nil
}
