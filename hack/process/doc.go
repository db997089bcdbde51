// Package process builds programs of this repository, runs them as a kubelet runs a container, and
// measures their resource usage, for tests and for the commands below hack.
package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Soon is the timeout of waits: far longer than anything takes on two cores shared with the tests of
// other packages, where retries and periodic reads take up to a minute. Tick is the interval of polling,
// which costs CPU time on both sides.
const (
	Soon = 3 * time.Minute
	Tick = 20 * time.Millisecond
)

// Build builds packages of this repository into dir, with further flags of go build.
func Build(ctx context.Context, dir string, flags []string, packages ...string) error {
	args := slices.Concat([]string{"build", "-o", dir + string(filepath.Separator)}, flags)
	for _, pkg := range packages {
		args = append(args, "github.com/servingcert/servingcert/"+pkg)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in a release; tests with the race detector set 1
	// If go build is interrupted, it stops its compilers; if it is killed, they continue.
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) }
	build.WaitDelay = 5 * time.Second
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, ", "), err, out)
	}
	return nil
}

// FreeAddress returns a HOST:PORT of loopback with a free port: see FreePort.
func FreeAddress() (string, error) {
	port, err := FreePort("127.0.0.1")
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// FreePort returns a free TCP port of host, or of all addresses if host is empty. It is below the
// ephemeral ports (32768 on Linux): any connection could take one of those before the server has
// started, or while it restarts. Until this process ends, FreePort does not return the port again,
// in any process.
func FreePort(host string) (uint16, error) { return freePort(host, 10000, 32767) }

// reserved holds UDP ports: each reserves the TCP port with the same number.
var reserved struct {
	sync.Mutex
	ports []net.PacketConn
}

func freePort(host string, lowest, highest int) (uint16, error) {
	const attempts = 100
	var err error
	for range attempts {
		port := lowest + rand.IntN(highest-lowest+1)
		if err = reserve(net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return uint16(port), nil
		}
	}
	return 0, fmt.Errorf("no free port among %d tried in %d-%d: %w", attempts, lowest, highest, err)
}

// reserve reserves the address if it is free.
func reserve(address string) error {
	held, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		_ = held.Close()
		return err
	}
	reserved.Lock()
	reserved.ports = append(reserved.ports, held)
	reserved.Unlock()
	return l.Close()
}

// PortFor is FreePort for a test.
func PortFor(t testing.TB, host string) uint16 {
	t.Helper()
	port, err := FreePort(host)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
