// Package harness is what the integration tests have in common: how a package's
// tests begin and end, what is run and waited for.
package harness

import (
	"bytes"
	"context"
	"encoding/asn1"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
)

// Soon is far longer than anything here takes on two cores that other packages'
// tests share, and Tick is between two looks: each costs CPU of the test and of the API server.
const (
	Soon = time.Minute
	Tick = 20 * time.Millisecond
)

// Main is a package's TestMain. run sets up, runs the tests and takes down; its
// error fails them.
func Main(m *testing.M, run func(*testing.M) (code int, err error)) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// SideBySide lets n parallel tests of a package run at once, or as many as -parallel says.
// Go's default is one for each core, which those that wait for processes leave idle.
func SideBySide(n int) error { return flag.Set("test.parallel", strconv.Itoa(n)) }

// Eventually waits until what is nil. The last error tells what was missing.
func Eventually(t testing.TB, what func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(Soon); time.Now().Before(end); time.Sleep(Tick) {
		if err = what(); err == nil {
			return
		}
	}
	require.NoError(t, err, "after %s", Soon)
}

// envPrograms names a directory with the programs of cmd, as make test has just built them
// for all packages. Linking them for each package took two minutes of CPU.
const envPrograms = "SERVINGCERT_TEST_PROGRAMS"

// Build builds programs of cmd into dir, each under its own name.
func Build(ctx context.Context, dir string, names ...string) error {
	if built := os.Getenv(envPrograms); built != "" {
		return link(built, dir, names)
	}
	args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "github.com/servingcert/servingcert/cmd/"+name)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s of cmd: %w\n%s", strings.Join(names, ", "), err, out)
	}
	return nil
}

// link makes programs of one directory appear in another. They may be on file systems of
// their own.
func link(from, to string, names []string) error {
	for _, name := range names {
		program := filepath.Join(from, name)
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s: %w", envPrograms, err)
		}
		if err := os.Symlink(program, filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// ApplyRights applies what install.yaml has for one of the processes, its
// Deployment and its Service left out, and the namespace: what it may do.
func ApplyRights(ctx context.Context, c client.Client, process string) error {
	all, err := deploy.Objects()
	if err != nil {
		return err
	}
	rights := all[:0]
	for _, obj := range all {
		its := obj.GetLabels()["app.kubernetes.io/name"] == process && obj.GetKind() != "Deployment" && obj.GetKind() != "Service"
		if its || obj.GetKind() == "Namespace" {
			rights = append(rights, obj)
		}
	}
	return deploy.ApplyObjects(ctx, c, "test", rights)
}

// FreeAddress returns a host:port of loopback that nobody listens on. It lies below the
// ports that the kernel gives to clients (32768 on Linux): one of those could be taken by
// any connection before the process that is to listen has started.
func FreeAddress() (string, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a port that nobody listens on: %w", err)
}

// Log is written by a process and read by a test.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// SignedByAnother returns a PKCS #10 request in DER with the signature of another one, made
// by another key with the same algorithm.
func SignedByAnother(request, another []byte) ([]byte, error) {
	var parts [2]struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	for i, der := range [][]byte{request, another} {
		if _, err := asn1.Unmarshal(der, &parts[i]); err != nil {
			return nil, err
		}
	}
	parts[0].Signature = parts[1].Signature
	return asn1.Marshal(parts[0])
}
