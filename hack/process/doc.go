// Package process builds programs of this repository, runs them as a kubelet runs a container, and
// reports what they use: the processes of tests and of all commands below hack.
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

// Soon is far longer than anything here takes on two cores that other packages' tests share:
// what failed is tried again, and what nobody watches is read again, after as much as a minute.
// Tick is between two looks: each costs CPU of who looks and of who is asked.
const (
	Soon = 3 * time.Minute
	Tick = 20 * time.Millisecond
)

// Build builds packages of the project into dir, each under its own name, with more flags of
// go build.
func Build(ctx context.Context, dir string, flags []string, packages ...string) error {
	args := slices.Concat([]string{"build", "-o", dir + string(filepath.Separator)}, flags)
	for _, pkg := range packages {
		args = append(args, "github.com/servingcert/servingcert/"+pkg)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as they ship; tests with the race detector have it set to 1
	// Interrupted, go build ends its compilers; killed, it would leave them behind.
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) }
	build.WaitDelay = 5 * time.Second
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, ", "), err, out)
	}
	return nil
}

// FreeAddress returns a host:port of loopback that nobody listens on.
func FreeAddress() (string, error) {
	port, err := FreePort("127.0.0.1")
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// FreePort returns a TCP port that nobody listens on at host, or anywhere if that is empty. It
// lies below the ports that kernels give to clients (32768 on Linux): one of those could be
// taken by any connection before the process that is to listen has started, or while it is away.
// No other process gets it from here, and this one no second time, until this one ends.
func FreePort(host string) (uint16, error) { return freePort(host, 10000, 32767) }

// given are the UDP ports of the same numbers: who holds one has been given the TCP port.
var given struct {
	sync.Mutex
	ports []net.PacketConn
}

func freePort(host string, lowest, highest int) (uint16, error) {
	const attempts = 100
	var err error
	for range attempts {
		port := lowest + rand.IntN(highest-lowest+1)
		if err = give(net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return uint16(port), nil
		}
	}
	return 0, fmt.Errorf("no free port among %d tried in %d-%d: %w", attempts, lowest, highest, err)
}

// give has nobody else be given the address, if it is free.
func give(address string) error {
	held, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		_ = held.Close()
		return err
	}
	given.Lock()
	given.ports = append(given.ports, held)
	given.Unlock()
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
