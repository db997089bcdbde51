// Package harness is what the integration tests have in common: how a package's
// tests begin and end, what is run and waited for.
package harness

import (
	"context"
	"encoding/asn1"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/process"
)

// Soon is far longer than anything takes, and Tick is between two looks.
const (
	Soon = process.Soon
	Tick = process.Tick

	seldom = 300 * time.Millisecond
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

// sideBySide lets n parallel tests of a package run at once, or as many as -parallel says.
// Go's default is one for each core, which those that wait for processes leave idle.
func sideBySide(n int) error { return flag.Set("test.parallel", strconv.Itoa(n)) }

// Eventually waits until what is nil. The last error tells what was missing.
func Eventually(t testing.TB, what func() error) {
	t.Helper()
	require.NoError(t, Await(context.Background(), what)) // that of a test is over in its cleanups
}

// Await is Eventually where there is no test. The longer it waits, the seldomer it looks: a look at an API
// server that others wait for delays them all.
func Await(ctx context.Context, what func() error) error {
	begun, err := time.Now(), what()
	for err != nil && time.Since(begun) < Soon && ctx.Err() == nil {
		time.Sleep(min(max(Tick, time.Since(begun)/10), seldom))
		err = what()
	}
	if err != nil {
		return fmt.Errorf("not within %s: %w", Soon, err)
	}
	return nil
}

// Logger logs to the test until it ends, and nothing after that. A manager's events are
// written, and may fail, after it was stopped (client-go's event_broadcaster.go), and whoever
// logs to a test while that ends races with it.
func Logger(t testing.TB) logr.Logger {
	var mu sync.Mutex
	ended := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Log(prefix, args)
		}
	}, funcr.Options{})
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

// What tests run is run by package process.
type (
	// Program is one of the programs of cmd.
	Program = process.Program
	// Programs are those that a test binary runs as itself.
	Programs = process.Programs
	// Log is written by a process and read by a test.
	Log = process.Log
)

// FreeAddress returns a host:port of loopback that nobody listens on.
func FreeAddress() (string, error) { return process.FreeAddress() }

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
