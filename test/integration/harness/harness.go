// Package harness is what the integration tests have in common: how a package's
// tests begin and end, what is run and waited for.
package harness

import (
	"bytes"
	"context"
	"encoding/asn1"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
)

// Soon is far longer than anything here takes on two cores that other packages'
// tests share, and Tick is between two looks.
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

// Build builds programs of cmd into dir, each under its own name.
func Build(ctx context.Context, dir string, names ...string) error {
	for _, name := range names {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), "github.com/servingcert/servingcert/cmd/"+name)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build cmd/%s: %w\n%s", name, err, out)
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
